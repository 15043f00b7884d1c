// Light or dark: what the system says, unless it was switched here.
import { createStore } from "./store.js";

const system = matchMedia("(prefers-color-scheme: dark)");
const current = () => document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light");

export const theme = createStore(current());
system.addEventListener("change", () => theme.set(current()));

export function switchTheme() {
  const next = current() === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem("flint.theme", next);
  } catch {
    // It holds until the page is closed.
  }
  theme.set(next);
}

// The value of a custom property, for what is drawn on a canvas.
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
