// Submit: a program is uploaded, or one that was uploaded before is chosen, and run as a job.
import { request, upload } from "../api.js";
import { splitArguments, splitSettings } from "../arguments.js";
import { percent, time } from "../format.js";
import { announce, Empty, Loading, Section } from "../parts.js";
import { usePoll } from "../poll.js";
import { html, useEffect, useRef, useState } from "../preact.js";
import { go, href } from "../router.js";

export function Submit({ permitted }) {
  useEffect(() => {
    document.title = "Submit · Flintstream";
  }, []);
  if (permitted === null) return html`<${Loading} what="Asking the server" />`;
  if (!permitted) return html`<h1>Submit a job</h1><${Empty} title="This server takes no programs."><p>It was started with <code>web.submit.enable: false</code>.</p><//>`;
  return html`<div class="heading"><h1>Submit a job</h1></div><${Form} />`;
}

function Form() {
  const { data: uploads, ask } = usePoll("/jars", 10_000);
  const file = useRef(null);
  const [fields, setFields] = useState({ program: "", arguments: "", parallelism: "", savepoint: "", skip: false, module: "", settings: "" });
  const [state, setState] = useState({ step: "form" });
  const set = (name) => (event) => setFields({ ...fields, [name]: event.target.type === "checkbox" ? event.target.checked : event.target.value });
  const files = uploads?.files ?? [];

  const submit = async (event) => {
    event.preventDefault();
    try {
      const body = {
        programArgsList: splitArguments(fields.arguments),
        parallelism: fields.parallelism ? Number(fields.parallelism) : undefined,
        savepointPath: fields.savepoint.trim() || undefined,
        allowNonRestoredState: fields.skip || undefined,
        entryClass: fields.module.trim() || undefined,
        flinkConfiguration: splitSettings(fields.settings),
      };
      let program = fields.program;
      if (!program) {
        const chosen = file.current.files[0];
        if (!chosen) throw new Error("Choose a program first.");
        setState({ step: "upload", share: 0 });
        program = await upload(chosen, (share) => setState({ step: "upload", share }));
        setFields((before) => ({ ...before, program }));
        file.current.value = "";
        ask();
      }
      setState({ step: "start" });
      announce("The driver is being started");
      const { jobid } = await request(`/jars/${encodeURIComponent(program)}/run`, { method: "POST", body, seconds: 600 });
      announce("The job was submitted");
      go("jobs", jobid);
    } catch (error) {
      setState({ step: "failed", message: error.message });
    }
  };
  const remove = async (id) => {
    try {
      await request(`/jars/${encodeURIComponent(id)}`, { method: "DELETE" });
      if (fields.program === id) setFields({ ...fields, program: "" });
    } catch (error) {
      setState({ step: "failed", message: error.message });
    }
    ask();
  };
  const working = state.step === "upload" || state.step === "start";
  const archive = /\.(zip|whl)$/i.test(fields.program || (file.current?.files[0]?.name ?? ""));

  return html`
    <${Section} title="Program" id="program">
      <form class="submit" onSubmit=${submit}>
        <label class="wide">File <span class="soft">a script, or a zip archive or wheel with a module to run</span>
          <input type="file" accept=".py,.zip,.whl" ref=${file} onChange=${() => setFields({ ...fields, program: "" })} disabled=${working} /></label>
        ${fields.program && html`<p class="wide">Runs the uploaded <code>${label(files, fields.program)}</code></p>`}
        ${archive && html`<label>Module <input value=${fields.module} onInput=${set("module")} placeholder="shop.main" spellcheck=${false} /></label>`}
        <label class="wide">Arguments <input value=${fields.arguments} onInput=${set("arguments")} placeholder="--input /data/orders --rate 100" spellcheck=${false} /></label>
        <label>Parallelism <input type="number" min="1" value=${fields.parallelism} onInput=${set("parallelism")} placeholder="as the program says" /></label>
        <label>Start from savepoint <input value=${fields.savepoint} onInput=${set("savepoint")} placeholder="none" spellcheck=${false} /></label>
        ${fields.savepoint && html`<label class="check wide"><input type="checkbox" checked=${fields.skip} onChange=${set("skip")} /> Skip state that the program has no operator for</label>`}
        <label class="wide">Settings <span class="soft">one in a line, as with <code>-D</code></span>
          <textarea rows="3" value=${fields.settings} onInput=${set("settings")} placeholder="execution.checkpointing.interval: 30s" spellcheck=${false}></textarea></label>
        <div class="buttons wide"><button type="submit" class="primary" disabled=${working}>Submit</button>
          <span role="status" class="working">${state.step === "upload" ? `Uploading, ${percent(state.share)}` : state.step === "start" ? "The driver starts …" : ""}</span></div>
        ${state.step === "failed" && html`<pre class="problem wide" role="alert" tabindex="0">${state.message}</pre>`}
      </form>
    <//>
    ${files.length > 0 && html`<${Section} title="Uploaded before" id="uploads">
      <ul class="uploads">${files.map((each) => html`<li key=${each.id}>
        <span><code>${each.name}</code> <span class="soft">${time(each.uploaded)}</span></span>
        <span class="buttons"><button type="button" aria-label=${`use ${each.name}`} onClick=${() => { setFields({ ...fields, program: each.id }); file.current.value = ""; }}>Use</button><button type="button" aria-label=${`delete ${each.name}`} onClick=${() => remove(each.id)}>Delete</button></span>
      </li>`)}</ul>
    <//>`}
    <p class="soft">The same from a terminal: <code>flint run -d job.py</code>. <a href=${href()}>All jobs</a></p>`;
}

const label = (files, id) => files.find((each) => each.id === id)?.name ?? id;
