// The page: a bar at the top, and below it one view.
import { connection } from "./api.js";
import { time } from "./format.js";
import { LiveRegion } from "./parts.js";
import { usePoll } from "./poll.js";
import { html, render, useEffect, useRef } from "./preact.js";
import { href, useRoute } from "./router.js";
import { useStore } from "./store.js";
import { switchTheme, theme } from "./theme.js";
import { TokenDialog } from "./token.js";
import { Job } from "./views/job.js";
import { Overview } from "./views/overview.js";
import { Submit } from "./views/submit.js";

function App() {
  const [view = "", id, tab, item] = useRoute();
  const { data: config } = usePoll("/config", 60_000);
  const features = { submit: config?.features?.["web-submit"] ?? false, cancel: config?.features?.["web-cancel"] ?? false };
  const main = useRef(null);
  const place = view === "jobs" ? `jobs/${id}` : view;

  const first = useRef(true);
  useEffect(() => {
    // Whoever follows a link by keyboard goes on at the new view, not at the bar above it.
    if (!first.current) main.current?.focus({ preventScroll: true });
    first.current = false;
    scrollTo(0, 0);
  }, [place]);

  return html`
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); main.current.focus(); }}>Skip to content</a>
    <${Bar} view=${view} features=${features} />
    <${Disconnected} />
    <main id="main" tabindex="-1" ref=${main}>
      ${view === "jobs" && id
        ? html`<${Job} key=${id} id=${id} tab=${tab ?? "graph"} item=${item} features=${features} />`
        : view === "submit"
          ? html`<${Submit} permitted=${config === null ? null : features.submit} />`
          : html`<${Overview} features=${features} />`}
    </main>
    <${LiveRegion} />
    <${TokenDialog} />
  `;
}

function Bar({ view, features }) {
  const current = useStore(theme);
  const here = (name) => (view === name ? "page" : undefined);
  return html`<header class="top">
    <a class="brand" href=${href()} aria-label="Flintstream, all jobs"><img src="icon.svg" alt="" width="22" height="22" />flintstream</a>
    <nav aria-label="Main">
      <a href=${href()} aria-current=${here("")}>Jobs</a>
      ${features.submit && html`<a href=${href("submit")} aria-current=${here("submit")}>Submit</a>`}
    </nav>
    <button type="button" class="quiet theme" onClick=${switchTheme} aria-label=${`switch to the ${current === "dark" ? "light" : "dark"} theme`}>
      <svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true"><circle cx="8" cy="8" r="6.5" /><path d="M8 1.5a6.500 6.500 0 0 1 0 13z" /></svg>
    </button>
  </header>`;
}

function Disconnected() {
  const { connected, since } = useStore(connection);
  if (connected) return null;
  return html`<div class="banner" role="alert">No answer from the server since ${time(since)}. The page shows what it knew then, and tries again.</div>`;
}

render(html`<${App} />`, document.body);
