// Where the page is: the part of the address behind `#`.
import { useEffect, useState } from "./preact.js";

function parts() {
  try {
    return location.hash.replace(/^#\/?/, "").split("/").filter(Boolean).map(decodeURIComponent);
  } catch {
    return []; // Not an address of this page.
  }
}

export const href = (...path) => `#/${path.filter((part) => part != null).map(encodeURIComponent).join("/")}`;

export const go = (...path) => {
  location.hash = href(...path);
};

export function useRoute() {
  const [route, setRoute] = useState(parts());
  useEffect(() => {
    const changed = () => setRoute(parts());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}
