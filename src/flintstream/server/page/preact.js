// What the page is drawn with.
export {
  html, render, useEffect, useLayoutEffect, useMemo, useRef, useState, useCallback,
} from "./vendor/htm/preact-standalone.js";
