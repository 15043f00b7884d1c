// Asks for the token of the server, once. The page does not keep it: the browser has a cookie then.
import { authorisation, giveToken } from "./api.js";
import { html, useEffect, useRef, useState } from "./preact.js";
import { useStore } from "./store.js";

export function TokenDialog() {
  const { needed, refused } = useStore(authorisation);
  const dialog = useRef(null);
  const field = useRef(null);
  useEffect(() => {
    if (needed && !dialog.current.open) dialog.current.showModal();
    if (!needed && dialog.current.open) dialog.current.close();
  }, [needed]);
  const [problem, setProblem] = useState(null);
  const give = async (event) => {
    event.preventDefault();
    const value = field.current.value.trim();
    field.current.value = "";
    setProblem(null);
    try {
      if (value) await giveToken(value);
    } catch (error) {
      setProblem(error.message);
    }
  };
  return html`<dialog ref=${dialog} aria-labelledby="token-title" onCancel=${(event) => event.preventDefault()}>
    <form onSubmit=${give}>
      <h2 id="token-title">This server wants a token</h2>
      <p>It is in the file that the server was started with (<code>--token-file</code>). This browser stays logged in for some hours.</p>
      ${(problem || refused) && html`<p class="problem" role="alert">${problem ?? "The server has refused that token."}</p>`}
      <label>Token <input type="password" ref=${field} autocomplete="off" required /></label>
      <div class="buttons"><button type="submit" class="primary">Continue</button></div>
    </form>
  </dialog>`;
}
