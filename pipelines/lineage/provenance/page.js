// The graph: what things were made from on the left, what was made on the right. Everything is drawn from the JSON in the page.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = new Map(data.nodes.map((node) => [node.id, node]));
  const links = data.links.filter((link) => byId.has(link.made) && byId.has(link.source));
  const svg = document.getElementById("graph"), panel = document.getElementById("panel");
  const find = document.getElementById("find"), results = document.getElementById("results");
  const GROUPS = { "data set": 0, check: 0, split: 0, "source file": 0, training: 1, model: 1, evaluation: 2, metric: 2, report: 2,
    environment: 3, "behaviour policy": 3, artifact: 0 };
  const BACKGROUND = new Set(["parameters", "code", "packages", "run", "commit", "person"]);
  const FEW = 30, MANY = 150; // things, above which some of the background, and all of it and the models, are left out at first
  const READABLE = 0.62, START = 0.85; // the scale below which names are too small to read, and that of a graph that is larger
  const LISTED = 12, LONGEST = 150; // breaks in the summary, and letters of each reason
  const hidden = new Set(data.nodes.length > MANY ? [...BACKGROUND, "model"] : data.nodes.length > FEW ? ["commit", "person"] : []);
  let selected = null, isolated = null, drawn = [], places = new Map(), view = { x: 0, y: 0, width: 1, height: 1 };

  const worst = (node) => ["broken", "affected", "cannot tell"].find((verdict) => node.faults.some((fault) => fault.verdict === verdict)) || "";
  const className = (verdict) => (verdict === "cannot tell" ? "unknown" : verdict);
  const short = (digest) => digest.slice(0, 10);
  const make = (tag, attributes = {}, ...children) => {
    const isSvg = ["g", "rect", "path", "text", "title"].includes(tag);
    const element = isSvg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else element.setAttribute(name, value);
    }
    element.append(...children);
    return element;
  };

  // ---- which things are shown, and where

  const reached = (start, step) => {
    const found = new Set([start]), waiting = [start];
    while (waiting.length) for (const id of step(waiting.pop())) if (!found.has(id)) { found.add(id); waiting.push(id); }
    return found;
  };

  const everything = grouped(byId.keys(), links);
  const above = (id) => reached(id, (name) => everything.sources.get(name).map((link) => link.source));
  const below = (id) => reached(id, (name) => everything.uses.get(name).map((link) => link.made));
  const connected = (id) => new Set([...above(id), ...below(id)]);

  const shownIds = () => {
    const scope = isolated ? connected(isolated) : null;
    return data.nodes.filter((node) => (!hidden.has(node.kind) || node.id === selected || node.id === isolated) && (!scope || scope.has(node.id)))
      .map((node) => node.id);
  };

  // The links between things that are shown; one that leads over things of hidden kinds stands for all of them.
  const linksBetween = (ids) => {
    const shown = new Set(ids), found = new Map();
    for (const made of ids) {
      const waiting = everything.sources.get(made).map((link) => ({ ...link, over: null })), passed = new Set();
      while (waiting.length) {
        const link = waiting.pop();
        if (shown.has(link.source)) {
          if (!found.has(`${made} ${link.source}`) || !link.over) found.set(`${made} ${link.source}`, link);
        } else if (hidden.has(byId.get(link.source).kind) && !passed.has(link.source)) {
          passed.add(link.source);
          for (const next of everything.sources.get(link.source)) waiting.push({ made, source: next.source, how: link.how, over: byId.get(link.source) });
        }
      }
    }
    return [...found.values()];
  };

  // ---- drawing

  const cut = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}\u2026` : text);

  // A break shows on the links to what was made from the broken thing; where nothing was, on those to what it was made from.
  const isBroken = (link) => worst(byId.get(link.source)) === "broken"
    || (worst(byId.get(link.made)) === "broken" && everything.uses.get(link.made).length === 0);
  const reasons = (node) => node.faults.map((fault) => `${fault.verdict}: ${fault.link}: ${fault.reason}`).join("\n");

  const drawLink = (link) => {
    const from = places.get(link.source), to = places.get(link.made);
    const start = [from.x + BOX.width, from.y + BOX.height / 2], end = [to.x, to.y + BOX.height / 2];
    const bend = Math.max(30, (end[0] - start[0]) / 2);
    const path = make("path", { class: "link", d: `M${start} C${start[0] + bend},${start[1]} ${end[0] - bend},${end[1]} ${end}` });
    if (link.over) path.classList.add("over");
    path.dataset.made = link.made;
    path.dataset.source = link.source;
    if (isBroken(link)) path.classList.add("broken");
    const over = link.over ? ` ${link.over.kind} ${link.over.name} ... of` : "";
    const told = [`${byId.get(link.made).name} ${link.how}${over} ${byId.get(link.source).name}`];
    if (isBroken(link)) told.push(reasons(byId.get(link.source)) || reasons(byId.get(link.made)));
    path.append(make("title", {}, told.join("\n")));
    return path;
  };

  const drawNode = (node) => {
    const place = places.get(node.id), verdict = worst(node), digest = Object.values(node.digests)[0] || "";
    const group = make("g", { class: `node k${GROUPS[node.kind] ?? 4}`, transform: `translate(${place.x},${place.y})`, tabindex: "-1", role: "button" });
    group.dataset.id = node.id;
    if (verdict) group.classList.add(className(verdict));
    if (data.targets.includes(node.id)) group.classList.add("target");
    group.setAttribute("aria-label", `${node.kind} ${node.name}${verdict ? `, ${verdict}` : ""}`);
    const second = [verdict && `${verdict}:`, node.kind, digest && short(digest)].filter(Boolean).join("  ");
    group.append(
      make("rect", { class: "box", width: BOX.width, height: BOX.height, rx: 6 }),
      make("rect", { class: "bar", x: 1, y: 1, width: 6, height: BOX.height - 2, rx: 3 }),
      make("text", { x: 15, y: 18 }, cut(node.name, 24)),
      make("text", { class: "kind", x: 15, y: 33 }, cut(second, 31)),
      make("title", {}, [`${node.kind} ${node.name}`, reasons(node)].filter(Boolean).join("\n")),
    );
    group.addEventListener("click", () => select(node.id, true));
    return group;
  };

  const draw = () => {
    const ids = shownIds();
    drawn = linksBetween(ids);
    places = layout(ids, drawn);
    drawn.sort((one, two) => isBroken(one) - isBroken(two)); // broken ones above the others
    svg.replaceChildren(...drawn.map(drawLink), ...ids.map((id) => drawNode(byId.get(id))));
    mark();
    document.getElementById("count").textContent = `${ids.length} of ${data.nodes.length} things shown`;
    document.getElementById("all").hidden = !isolated;
  };

  const mark = () => {
    const near = selected && places.has(selected) ? connected(selected) : null;
    for (const element of svg.querySelectorAll(".node")) {
      element.classList.toggle("selected", element.dataset.id === selected);
      element.classList.toggle("dim", Boolean(near) && !near.has(element.dataset.id));
      element.setAttribute("tabindex", element.dataset.id === (selected || first()) ? "0" : "-1");
    }
    for (const element of svg.querySelectorAll(".link")) {
      const { made, source } = element.dataset;
      element.classList.toggle("near", made === selected || source === selected);
      element.classList.toggle("dim", Boolean(near) && !(near.has(made) && near.has(source)));
    }
  };

  const first = () => data.targets.find((id) => places.has(id)) || [...places.keys()][0];
  const elementOf = (id) => [...svg.querySelectorAll(".node")].find((element) => element.dataset.id === id);

  // ---- the window on it

  const show = () => svg.setAttribute("viewBox", `${view.x} ${view.y} ${view.width} ${view.height}`);
  const size = () => { const box = svg.getBoundingClientRect(); return { width: box.width || 1, height: box.height || 1 }; };

  const bounds = () => {
    const all = [...places.values()], room = 20;
    return { left: Math.min(...all.map((p) => p.x)) - room, top: Math.min(...all.map((p) => p.y)) - room,
      right: Math.max(...all.map((p) => p.x)) + BOX.width + room, bottom: Math.max(...all.map((p) => p.y)) + BOX.height + room };
  };

  // At first what was asked for is shown, in a size that can be read; the whole only where it can be read too.
  const fit = (isFirst) => {
    const { left, top, right, bottom } = bounds(), { width, height } = size();
    const scale = Math.min(width / (right - left), height / (bottom - top), 1.3);
    if (isFirst && scale < READABLE) { centre(selected && places.has(selected) ? selected : first(), START); return; }
    view = { width: width / scale, height: height / scale };
    view.x = (left + right - view.width) / 2;
    view.y = (top + bottom - view.height) / 2;
    show();
  };

  const within = (low, high, length, wanted) => (high - low <= length ? (low + high - length) / 2 : Math.min(Math.max(wanted, low), high - length));

  const centre = (id, scale) => {
    const place = places.get(id), { width, height } = size(), now = scale || Math.max(width / view.width, READABLE);
    const { left, top, right, bottom } = bounds();
    view = { width: width / now, height: height / now };
    view.x = within(left, right, view.width, place.x + BOX.width / 2 - view.width / 2);
    view.y = within(top, bottom, view.height, place.y + BOX.height / 2 - view.height / 2);
    show();
  };

  const zoom = (factor, at) => {
    const point = at || { x: view.x + view.width / 2, y: view.y + view.height / 2 }, scale = size().width / view.width;
    const by = Math.min(Math.max(scale * factor, 0.05), 4) / scale;
    view = { x: point.x - (point.x - view.x) / by, y: point.y - (point.y - view.y) / by, width: view.width / by, height: view.height / by };
    show();
  };

  const pointOf = (event) => {
    const box = svg.getBoundingClientRect();
    return { x: view.x + ((event.clientX - box.left) / box.width) * view.width, y: view.y + ((event.clientY - box.top) / box.height) * view.height };
  };

  const isInside = (id) => {
    const place = places.get(id);
    return place.x >= view.x && place.y >= view.y && place.x + BOX.width <= view.x + view.width && place.y + BOX.height <= view.y + view.height;
  };

  // ---- details

  const select = (id, isQuiet) => {
    selected = id;
    if (id && !places.has(id)) { if (isolated && !connected(isolated).has(id)) isolated = null; draw(); } else mark();
    if (id && (!isQuiet || !isInside(id))) centre(id);
    history.replaceState(null, "", id ? `#${encodeURIComponent(id)}` : "#");
    panel.replaceChildren(...(id ? details(byId.get(id)) : summary()));
    panel.scrollTop = 0;
  };

  const go = (id, label) => make("button", { type: "button", onclick: () => { select(id); elementOf(id)?.focus(); } }, ...label);

  const copy = async (text, button) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = make("textarea", { style: "position:fixed;opacity:0" });
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    button.textContent = "copied";
    setTimeout(() => { button.textContent = "copy"; }, 1200);
  };

  const copyable = (text) => {
    const button = make("button", { type: "button", "aria-label": `copy ${text}`, onclick: () => copy(text, button) }, "copy");
    return [make("code", { title: text }, text.length > 24 ? `${text.slice(0, 12)}\u2026` : text), " ", button];
  };

  const shown = (value) => {
    if (typeof value === "string" && /^[0-9a-f]{32,64}$/.test(value)) return copyable(value);
    if (typeof value !== "object" || value === null) return [String(value)];
    if (Array.isArray(value) && value.every((entry) => typeof entry !== "object")) return [value.join("\n")];
    return [make("pre", {}, JSON.stringify(value, null, 2))];
  };

  const entries = (pairs) => make("dl", {}, ...pairs.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, ...shown(value))]));

  const list = (title, found, end) => (found.length === 0 ? [] : [
    make("h3", {}, title),
    make("ul", {}, ...found.map((link) => {
      const button = go(link[end], [`${byId.get(link[end]).kind} `, make("b", {}, byId.get(link[end]).name)]);
      return make("li", {}, ...(end === "source" ? [make("small", {}, `${link.how} `), button] : [button, make("small", {}, ` ${link.how} this`)]));
    })),
  ]);

  const faultBox = (fault, head = []) => make("div", { class: `fault ${className(fault.verdict)}` }, ...head,
    make("b", {}, fault.verdict), ` ${fault.link}: ${head.length ? cut(fault.reason, LONGEST) : fault.reason}`);

  const details = (node) => [
    make("h2", {}, node.name),
    make("small", {}, [node.kind, node.stage && `stage ${node.stage}`].filter(Boolean).join(", ")),
    make("div", { class: "actions" },
      make("button", { type: "button", onclick: () => { isolated = node.id; draw(); fit(true); } }, "Show only what is connected"),
      make("button", { type: "button", onclick: () => select(null) }, "Close")),
    ...node.faults.map((fault) => faultBox(fault)),
    ...list("Made from", everything.sources.get(node.id), "source"),
    ...list("Made into", everything.uses.get(node.id), "made"),
    ...(Object.keys(node.digests).length ? [make("h3", {}, "Digests"), entries(Object.entries(node.digests))] : []),
    ...(Object.keys(node.details).length ? [make("h3", {}, "Details"), entries(Object.entries(node.details))] : []),
    ...(node.paths.length ? [make("h3", {}, "Paths"), make("ul", {}, ...node.paths.map((path) => make("li", {}, make("code", {}, path))))] : []),
  ];

  const summary = () => {
    const wrong = data.nodes.flatMap((node) => node.faults.map((fault) => [node, fault]));
    const count = (verdict) => wrong.filter(([, fault]) => fault.verdict === verdict).length;
    const order = ["broken", "affected", "cannot tell"];
    wrong.sort(([, one], [, two]) => order.indexOf(one.verdict) - order.indexOf(two.verdict));
    const verdict = count("broken") ? ["bad", `${count("broken")} broken`] : count("cannot tell") ? ["warn", `${count("cannot tell")} cannot be told`] : ["good", "Every link that was looked at holds"];
    return [
      make("h2", {}, "What the audit says"),
      make("p", { class: `verdict ${verdict[0]}` }, verdict[1]),
      make("p", {}, "Choose a thing to see its digests and details, and to follow it to what it was made from. ",
        "The audit behind this page is the cheap one: hindcast audit --deep reads every byte."),
      ...wrong.slice(0, LISTED).map(([node, fault]) => faultBox(fault, [go(node.id, [`${node.kind} `, make("b", {}, node.name)]), make("br")])),
      ...(wrong.length > LISTED ? [make("p", {}, `and ${wrong.length - LISTED} more: they are marked in the graph, and 'hindcast audit' lists them.`)] : []),
    ];
  };

  // ---- finding

  const matches = () => {
    const words = find.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return [];
    const text = (node) => [node.kind, node.name, node.id, node.stage, ...node.paths, ...Object.values(node.digests)].join(" ").toLowerCase();
    return data.nodes.filter((node) => { const whole = text(node); return words.every((word) => whole.includes(word)); }).slice(0, 40);
  };

  const listResults = () => {
    const found = matches();
    results.replaceChildren(...found.map((node, index) => {
      const item = make("li", { role: "option", id: `result-${index}`, "aria-selected": index === 0, onmousedown: (event) => { event.preventDefault(); choose(node.id); } },
        `${node.name} `, make("small", {}, `${node.kind}${node.faults.length ? `, ${worst(node)}` : ""}`));
      item.dataset.id = node.id;
      return item;
    }));
    if (find.value.trim() && !found.length) results.append(make("li", {}, "nothing has this name, path or digest"));
    results.hidden = !find.value.trim();
    find.setAttribute("aria-expanded", String(!results.hidden));
  };

  const choose = (id) => { results.hidden = true; find.setAttribute("aria-expanded", "false"); select(id); elementOf(id)?.focus({ preventScroll: true }); };

  find.addEventListener("input", listResults);
  find.addEventListener("blur", () => { results.hidden = true; });
  find.addEventListener("keydown", (event) => {
    const options = [...results.querySelectorAll("[role=option]")], now = options.findIndex((option) => option.getAttribute("aria-selected") === "true");
    if (event.key === "Enter" && options[now]) choose(options[now].dataset.id);
    else if (event.key === "Escape") { find.value = ""; listResults(); }
    else if (["ArrowDown", "ArrowUp"].includes(event.key) && options.length) {
      event.preventDefault();
      const next = (now + (event.key === "ArrowDown" ? 1 : options.length - 1)) % options.length;
      options.forEach((option, index) => option.setAttribute("aria-selected", String(index === next)));
      options[next].scrollIntoView({ block: "nearest" });
      find.setAttribute("aria-activedescendant", `result-${next}`);
    } else return;
    event.stopPropagation();
  });

  // ---- keys and pointer

  const beside = (id, key) => {
    const { sources, uses } = grouped(places.keys(), drawn), place = places.get(id);
    const near = { ArrowLeft: sources.get(id).map((link) => link.source), ArrowRight: uses.get(id).map((link) => link.made) }[key];
    if (near) return near.sort((one, two) => Math.abs(places.get(one).y - place.y) - Math.abs(places.get(two).y - place.y))[0];
    const column = [...places.keys()].filter((other) => places.get(other).x === place.x).sort((one, two) => places.get(one).y - places.get(two).y);
    return column[column.indexOf(id) + (key === "ArrowDown" ? 1 : -1)];
  };

  document.addEventListener("keydown", (event) => {
    if (event.target === find || event.ctrlKey || event.metaKey || event.altKey) return;
    const id = event.target.closest?.(".node")?.dataset.id;
    if (event.key === "/") find.focus();
    else if (event.key === "Escape") { if (isolated) { isolated = null; draw(); } else select(null); fit(true); }
    else if (event.key === "+" || event.key === "=") zoom(1.25);
    else if (event.key === "-") zoom(0.8);
    else if (event.key === "0") fit(false);
    else if (id && (event.key === "Enter" || event.key === " ")) { select(id, true); panel.focus(); }
    else if (id && event.key.startsWith("Arrow")) { const next = beside(id, event.key); if (next) { select(next, true); elementOf(next)?.focus({ preventScroll: true }); } }
    else return;
    event.preventDefault();
  });

  let grip = null;
  svg.addEventListener("pointerdown", (event) => { grip = { x: event.clientX, y: event.clientY, isDrag: false }; });
  window.addEventListener("pointermove", (event) => {
    if (!grip) return;
    const scale = size().width / view.width, across = event.clientX - grip.x, down = event.clientY - grip.y;
    if (!grip.isDrag && Math.hypot(across, down) < 4) return;
    grip = { x: event.clientX, y: event.clientY, isDrag: true };
    view.x -= across / scale;
    view.y -= down / scale;
    show();
  });
  window.addEventListener("pointerup", () => { grip = null; });
  svg.addEventListener("wheel", (event) => { event.preventDefault(); zoom(event.deltaY < 0 ? 1.12 : 0.89, pointOf(event)); }, { passive: false });
  window.addEventListener("resize", () => { const scale = view.width ? size().width / view.width : 1; view.height = size().height / scale; show(); });

  for (const [id, act] of [["fit", () => fit(false)], ["in", () => zoom(1.25)], ["out", () => zoom(0.8)], ["all", () => { isolated = null; draw(); fit(true); }]]) {
    document.getElementById(id).addEventListener("click", act);
  }

  const kinds = [...new Set(data.nodes.map((node) => node.kind))];
  document.getElementById("kinds").append(...kinds.map((kind) => {
    const total = data.nodes.filter((node) => node.kind === kind).length;
    const button = make("button", { type: "button", class: `k${GROUPS[kind] ?? 4}`, "aria-pressed": !hidden.has(kind), onclick: () => {
      if (hidden.has(kind)) hidden.delete(kind); else hidden.add(kind);
      button.setAttribute("aria-pressed", String(!hidden.has(kind)));
      draw();
      fit(true);
    } }, make("i"), `${kind} ${total}`);
    return button;
  }));

  draw();
  const asked = decodeURIComponent(location.hash.slice(1));
  if (byId.has(asked)) select(asked); else { fit(true); panel.replaceChildren(...summary()); }
})();
