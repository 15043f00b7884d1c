// Arguments of a program as they are typed in a shell: separated by spaces, quoted where they hold some.
export function splitArguments(text) {
  const found = [];
  let current = null;
  let quote = null;
  for (let place = 0; place < text.length; place += 1) {
    const letter = text[place];
    if (quote) {
      if (letter === quote) quote = null;
      else if (letter === "\\" && quote === '"' && /["\\]/.test(text[place + 1] ?? "")) current += text[(place += 1)];
      else current += letter;
    } else if (letter === '"' || letter === "'") {
      quote = letter;
      current ??= "";
    } else if (/\s/.test(letter)) {
      if (current !== null) found.push(current);
      current = null;
    } else if (letter === "\\" && place + 1 < text.length) {
      current = (current ?? "") + text[(place += 1)];
    } else {
      current = (current ?? "") + letter;
    }
  }
  if (quote) throw new Error(`The arguments have a ${quote} without an end.`);
  if (current !== null) found.push(current);
  return found;
}

// Settings, one in a line: `key: value` or `key=value`.
export function splitSettings(text) {
  const found = {};
  for (const line of text.split("\n").map((each) => each.trim()).filter((each) => each && !each.startsWith("#"))) {
    const match = /^([^\s:=]+)\s*[:=]\s*(.*)$/.exec(line);
    if (!match) throw new Error(`A setting is 'key: value', not '${line}'.`);
    found[match[1]] = match[2];
  }
  return found;
}
