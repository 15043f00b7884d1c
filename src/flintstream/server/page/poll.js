// usePoll: the answer to a request, asked again while the page is visible.
import { authorisation, request } from "./api.js";
import { useEffect, useRef, useState } from "./preact.js";
import { useStore } from "./store.js";

const LONGEST_PAUSE = 5000;

// Returns `data`, when it came (`at`), and the `error` of the last request if that failed; the data before it stays.
// Nothing is asked for while `path` is null or the tab is hidden. `ask` makes it ask at once.
export function usePoll(path, milliseconds, { text = false } = {}) {
  const [state, setState] = useState({ path, data: null, error: null, at: 0 });
  const { needed, version } = useStore(authorisation);
  const now = useRef(() => {});

  useEffect(() => {
    if (path === null || needed) return undefined;
    const stopped = new AbortController();
    let timer = null;
    let running = false;
    let failures = 0;

    async function ask() {
      clearTimeout(timer);
      if (running || document.hidden || stopped.signal.aborted) return;
      running = true;
      try {
        const data = await request(path, { signal: stopped.signal, text });
        failures = 0;
        if (!stopped.signal.aborted) setState({ path, data, error: null, at: Date.now() });
      } catch (error) {
        if (stopped.signal.aborted) return;
        failures += 1;
        setState((before) => ({ ...(before.path === path ? before : { data: null, at: 0 }), path, error }));
      } finally {
        running = false;
      }
      if (milliseconds && !stopped.signal.aborted) {
        timer = setTimeout(ask, failures ? Math.min(LONGEST_PAUSE, 500 * 2 ** failures) : milliseconds);
      }
    }

    now.current = ask;
    document.addEventListener("visibilitychange", ask);
    ask();
    return () => {
      stopped.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", ask);
    };
  }, [path, milliseconds, text, needed, version]);

  const mine = state.path === path ? state : { data: null, error: null, at: 0 };
  return { data: mine.data, error: mine.error, at: mine.at, ask: () => now.current() };
}
