// Numbers, sizes, durations and times as text.
const NONE = "–";
const number = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { year: "numeric", month: "short", day: "2-digit" });

const known = (value) => typeof value === "number" && Number.isFinite(value);

function scaled(value, base, units) {
  let place = 0;
  let rest = Math.abs(value);
  while (rest >= base * 0.9995 && place < units.length - 1) {
    rest /= base;
    place += 1;
  }
  const digits = place === 0 ? (Number.isInteger(rest) || rest >= 10 ? 0 : 1) : rest >= 99.95 ? 0 : rest >= 9.995 ? 1 : 2;
  return `${value < 0 ? "-" : ""}${rest.toFixed(digits)}${units[place]}`;
}

export const exact = (value) => (known(value) ? number.format(value) : NONE);
export const count = (value) => (known(value) ? scaled(value, 1000, ["", " k", " M", " G", " T"]) : NONE);
export const bytes = (value) => (known(value) ? scaled(value, 1024, [" B", " KiB", " MiB", " GiB", " TiB"]) : NONE);
export const rate = (value) => (known(value) ? `${count(value)}/s` : NONE);
export const percent = (share) => (known(share) ? `${Math.round(share * 100)}%` : NONE);

export function duration(milliseconds) {
  if (!known(milliseconds)) return NONE;
  const sign = milliseconds < 0 ? "-" : "";
  const value = Math.abs(milliseconds);
  if (value < 1000) return `${sign}${Math.round(value)} ms`;
  if (value < 10_000) return `${sign}${(value / 1000).toFixed(1)} s`;
  const seconds = Math.round(value / 1000);
  if (seconds < 60) return `${sign}${seconds} s`;
  if (seconds < 3600) return `${sign}${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 24 * 60) return `${sign}${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  return `${sign}${Math.floor(minutes / 1440)} d ${Math.floor((minutes % 1440) / 60)} h`;
}

export function time(milliseconds, now = Date.now()) {
  if (!known(milliseconds) || milliseconds <= 0) return NONE;
  const at = new Date(milliseconds);
  const today = new Date(now).toDateString() === at.toDateString();
  return today ? clock.format(at) : `${day.format(at)}, ${clock.format(at)}`;
}

export const ago = (milliseconds, now) => (milliseconds > 0 ? (now - milliseconds < 1000 ? "just now" : `${duration(now - milliseconds)} ago`) : NONE);

export const plural = (value, noun) => `${exact(value)} ${noun}${value === 1 ? "" : "s"}`;
