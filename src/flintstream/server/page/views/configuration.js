// How a job was set up: guarantees, settings, slots, driver.
import { bytes } from "../format.js";
import { Empty, Section, Table } from "../parts.js";
import { html } from "../preact.js";

const DELIVERY = { "exactly once": "ok", "at least once": "warn" };

export function Configuration({ job }) {
  const settings = Object.entries(job.configuration).sort(([left], [right]) => left.localeCompare(right));
  const parameters = Object.entries(job.parameters);
  return html`
    <${Section} title="Guarantees" id="guarantees">
      ${job.guarantees.length ? html`<${Table} caption="What a failure may do to results" hidden=${true} columns=${["From", "To", "Delivery", "Why"]}>
        ${job.guarantees.map((each) => html`<tr><th scope="row">${each.source}</th><td>${each.sink}</td><td><span class="status ${DELIVERY[each.delivery] ?? "wait"}"><span class="dot" aria-hidden="true"></span>${each.delivery}</span></td><td class="soft">${each.reason}</td></tr>`)}
      <//>` : html`<${Empty} title="No sinks, no guarantees." />`}
    <//>
    <${Section} title="Driver" id="driver">
      <dl class="settings">
        <dt>Program</dt><dd><code>${job.program || "interactive"}</code></dd>
        <dt>Process</dt><dd>${job.driver_pid} on ${job.driver_host}</dd>
        <dt>Kind</dt><dd>${job.job_type.toLowerCase()}</dd>
        <dt>Restart strategy</dt><dd>${job.restart_strategy}</dd>
        <dt>Object reuse</dt><dd>${job.object_reuse ? "on" : "off"}</dd>
      </dl>
    <//>
    <${Section} title="Slots" id="slots">
      ${job.slots.length ? html`<${Table} caption="Slots of the job" hidden=${true} columns=${[{ name: "Slot", className: "number" }, "Host", { name: "Process", className: "number" }, { name: "Memory", className: "number" }]}>
        ${job.slots.map((slot) => html`<tr><th scope="row" class="number">${slot.slot}</th><td>${slot.host}</td><td class="number">${slot.pid}</td><td class="number">${slot.memory ? bytes(slot.memory) : "–"}</td></tr>`)}
      <//>` : html`<${Empty} title="The job has no slots now." />`}
    <//>
    <${Section} title="Settings" id="settings">
      ${settings.length ? html`<${Settings} caption="Settings of the job" entries=${settings} />` : html`<${Empty} title="All settings have their defaults." />`}
    <//>
    ${parameters.length > 0 && html`<${Section} title="Job parameters" id="parameters"><${Settings} caption="Global job parameters" entries=${parameters} /><//>`}`;
}

function Settings({ caption, entries }) {
  return html`<${Table} caption=${caption} hidden=${true} columns=${["Key", "Value"]}>${entries.map(([key, value]) => html`<tr><th scope="row"><code>${key}</code></th><td><code>${value}</code></td></tr>`)}<//>`;
}
