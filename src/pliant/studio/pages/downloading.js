// Files from the server, saved by the browser; what goes wrong is a sentence and not a page of its own.

export async function download(path) {
  const response = await fetch(path);
  if (!response.ok) {
    const said = await response.json().catch(() => null);
    throw new Error(said?.error ?? `The server answered ${response.status}.`);
  }
  const told = response.headers.get("Content-Disposition") ?? "";
  const [, encoded, plain] = /filename(?:\*=utf-8''([^;]+)|="([^"]+)")/i.exec(told) ?? [];
  const address = URL.createObjectURL(await response.blob());
  const link = Object.assign(document.createElement("a"), { href: address, download: encoded ? decodeURIComponent(encoded) : (plain ?? "pliant") });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}
