// What a page gains from a script: news as they come, and keys. Everything else works without it.
"use strict";
(() => {
  const dot = document.getElementById("live");
  const sections = () => [...document.querySelectorAll("main > section[data-hash]")];
  const tell = (on, text) => { dot.classList.toggle("on", on); dot.title = text; };

  // Put news in place, and leave the focus where it was.
  const put = (id, { hash, html }) => {
    const section = document.getElementById(id);
    if (!section || section.contains(document.activeElement) && document.activeElement.matches("input, select, button")) return;
    const had = section.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    const left = section.scrollLeft;
    section.innerHTML = html;
    section.dataset.hash = hash;
    section.scrollLeft = left;
    if (had) [...section.querySelectorAll("[href]")].find(link => link.getAttribute("href") === had)?.focus({ preventScroll: true });
  };

  let source = null;
  const watch = () => {
    if (source || document.hidden) return;
    const have = sections().map(section => section.id + ":" + section.dataset.hash).join(",");
    source = new EventSource("/live?page=" + encodeURIComponent(document.body.dataset.address) + "&have=" + encodeURIComponent(have));
    source.onopen = () => tell(true, "Live: changes come by themselves");
    source.onerror = () => tell(false, "Not live: the connection is lost");
    source.onmessage = event => {
      const news = JSON.parse(event.data);
      for (const [id, section] of Object.entries(news.sections)) put(id, section);
      document.getElementById("as-of").textContent = news.asOf;
      document.body.dataset.news = 1 + Number(document.body.dataset.news || 0);
    };
  };
  const rest = () => { source?.close(); source = null; tell(false, "Not live: the page was hidden"); };
  // Who does not look costs nothing.
  if (dot) {
    document.addEventListener("visibilitychange", () => document.hidden ? rest() : watch());
    watch();
  }

  // In pictures of large machines a rack is one link: the node below the pointer is told all the same.
  document.addEventListener("mousemove", event => {
    const link = event.target.closest?.("svg[data-cell] a[data-host]");
    const title = link?.querySelector("title"), box = link?.querySelector("rect");
    if (!title || !box) return;
    const { cell, row, top } = link.ownerSVGElement.dataset;
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(link.ownerSVGElement.getScreenCTM().inverse());
    const [x, y] = [at.x - box.x.baseVal.value, at.y - box.y.baseVal.value - Number(top)].map(length => Math.floor(length / Number(cell)));
    link.dataset.whole ??= title.textContent;
    const [, stem, digits] = /^(.*?)(\d+)$/.exec(link.dataset.host);
    const name = stem + String(Number(digits) + y * Number(row) + x).padStart(digits.length, "0");
    title.textContent = y < 0 ? link.dataset.whole : name + " · " + link.dataset.whole;
  });

  // A choice of a list is applied at once.
  document.addEventListener("change", event => { if (event.target.matches(".filter select")) event.target.form.requestSubmit(); });

  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches("input, select, textarea")) { if (event.key === "Escape") event.target.blur(); return; }
    const pages = document.querySelectorAll("header nav a");
    if (event.key >= "1" && event.key <= String(pages.length)) pages[event.key - 1].click();
    else if (event.key === "/") { document.querySelector(".find input")?.focus(); event.preventDefault(); }
    else if (event.key === "j" || event.key === "k") {
      const links = [...document.querySelectorAll(".rows tbody tr")].map(row => row.querySelector("a")).filter(Boolean);
      const at = links.indexOf(document.activeElement);
      const to = event.key === "j" ? Math.min(at + 1, links.length - 1) : Math.max(at - 1, 0);
      links[to]?.focus();
      links[to]?.scrollIntoView({ block: "nearest" });
    }
  });
})();
