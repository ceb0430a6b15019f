"use strict";
// What the pages of a router and of a control element share. Whatever comes from a network becomes text, never markup.

const at = id => document.getElementById(id);

// ---- asking: on loopback with the token of the page, which the Unix socket does not need
async function request(path, options) {
  const token = sessionStorage.getItem("token");
  const headers = { ...(options || {}).headers, ...(token ? { "x-weir-token": token } : {}) };
  const answer = await fetch(path, { ...options, headers });
  if (answer.status === 401) {
    at("login").hidden = false; // the style sheet hides the sections, which would be empty
    at("headline").textContent = token ? "This token is wrong, or from before a restart" : "This page needs its token";
  }
  return answer;
}
addEventListener("submit", event => {
  if (event.target !== at("login")) return;
  event.preventDefault();
  sessionStorage.setItem("token", at("token").value.trim());
  location.reload();
});
async function ask(path, options) {
  const answer = await request(path, { ...options, signal: AbortSignal.timeout(8000) });
  const text = await answer.text();
  let value = null;
  try { value = JSON.parse(text); } catch { /* an error is plain text */ }
  if (!answer.ok) throw new Error(value && value.messages ? value.messages.join("\n") : text || `status ${answer.status}`);
  return value;
}

// Whether the page waits for its token; the router may work well meanwhile.
const isAsking = () => !at("login").hidden;

// ---- making elements
function el(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) if (name === "style") made.style.cssText = value; else made.setAttribute(name, value); // an attribute is refused
  made.append(...children.filter(child => child !== null).map(child => child instanceof Node ? child : String(child)));
  return made;
}
function svg(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
  made.append(...children);
  return made;
}
const scaled = (x, unit) => {
  for (const [size, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (x >= size) return `${(x / size).toPrecision(3)} ${letter}${unit}`;
  return `${x === 0 || x >= 100 ? x.toFixed(0) : x.toPrecision(2)} ${unit}`;
};
function elapsed(s) {
  if (s < 60) return `${Math.floor(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  return s < 86400 ? `${Math.floor(s / 3600)} h ${Math.floor(s % 3600 / 60)} min` : `${Math.floor(s / 86400)} d ${Math.floor(s % 86400 / 3600)} h`;
}

// ---- tables: a row stays the same element while its key stays, so that focus and selection survive
function heads(row, columns) {
  row.replaceChildren(...columns.map(([name, kind]) => el("th", kind === "word" ? { class: "word" } : {}, name)));
}
const serial = node => `${node.className}|${node.getAttribute("aria-pressed")}|${node.firstChild && node.firstChild.style ? node.firstChild.style.width : ""}|${node.textContent}`;
function fill(body, columns, rows) {
  const old = new Map([...body.children].map(row => [row.dataset.key, row]));
  const wanted = rows.map(({ key, cells, chosen }) => {
    const row = old.get(key) || el("tr", { "data-key": key }, ...columns.map(([name, kind]) =>
      el("td", { "data-head": name, ...(kind === "word" ? { class: "word" } : {}) })));
    row.classList.toggle("chosen", Boolean(chosen));
    cells.forEach((cell, n) => {
      const shown = [].concat(cell).map(part => part instanceof Node ? serial(part) : String(part)).join("\u0000");
      const td = row.children[n];
      if (td.shown === shown) return;
      td.shown = shown;
      td.classList.toggle("none", shown === "");
      td.replaceChildren(el("span", {}, ...[].concat(cell)));
    });
    return row;
  });
  if (wanted.length !== body.children.length || wanted.some((row, n) => row !== body.children[n])) body.replaceChildren(...wanted);
}
