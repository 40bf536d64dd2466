// Numbers and times as people read them.

export function shownNumber(value) {
  if (value === null || value === undefined) return "";
  if (Number.isInteger(value)) return value.toLocaleString("en");
  const size = Math.abs(value);
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  if (size >= 100) return value.toFixed(1);
  if (size >= 1) return value.toFixed(2);
  return size < 0.001 && size > 0 ? value.toExponential(1) : value.toFixed(4);
}

export const counted = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

export function shownCell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return shownNumber(value);
  if (typeof value === "boolean") return value ? "yes" : "no";
  return String(value);
}

export function shownBytes(bytes) {
  for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]])
    if (bytes >= size) return `${(bytes / size).toFixed(bytes < 10 * size ? 1 : 0)} ${unit}`;
  return `${bytes} bytes`;
}

export function shownTime(seconds) {
  const date = new Date(1000 * seconds);
  const today = new Date().toDateString() === date.toDateString();
  const time = date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  const day = date.toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" });
  return today ? `today, ${time}` : `${day}, ${time}`;
}

export const fileName = (path) => path.split("/").pop();

// "po-asy-gn" stays as it is; "start_error" is read as "start error".
export const shownTitle = (name) => name.replaceAll("_", " ");
