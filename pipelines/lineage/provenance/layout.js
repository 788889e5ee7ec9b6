// Where the boxes of a graph stand: a column a layer, what things were made from on the left. Pure functions, used by page.js.
const BOX = { width: 196, height: 40, across: 54, down: 12 };

// The links from each thing to what it was made from, and to it from what was made of it.
const grouped = (ids, found) => {
  const sources = new Map(), uses = new Map();
  for (const id of ids) { sources.set(id, []); uses.set(id, []); }
  for (const link of found) { sources.get(link.made).push(link); uses.get(link.source).push(link); }
  return { sources, uses };
};


// A column a layer: everything stands left of all that was made from it, and as near to it as can be.
const layers = (ids, uses) => {
  const depth = new Map(), open = new Set();
  for (const start of ids) {
    const stack = [start];
    while (stack.length) {
      const id = stack[stack.length - 1];
      if (depth.has(id)) { stack.pop(); continue; }
      open.add(id);
      const waiting = uses.get(id).map((link) => link.made).filter((other) => !depth.has(other) && !open.has(other));
      if (waiting.length) { stack.push(waiting[0]); continue; }
      depth.set(id, 1 + Math.max(-1, ...uses.get(id).map((link) => (depth.has(link.made) ? depth.get(link.made) : -1))));
      open.delete(id);
      stack.pop();
    }
  }
  const columns = [];
  for (const id of ids) (columns[depth.get(id)] ||= []).push(id);
  return columns;
};

const layout = (ids, drawn) => {
  const { sources, uses } = grouped(ids, drawn), columns = layers(ids, uses), step = BOX.height + BOX.down;
  const y = new Map();
  columns.forEach((column) => column.forEach((id, index) => y.set(id, index * step)));
  const around = (id) => [...sources.get(id).map((link) => link.source), ...uses.get(id).map((link) => link.made)].map((other) => y.get(other));
  for (let sweep = 0; sweep < 14; sweep += 1) {
    for (const column of sweep % 2 ? [...columns].reverse() : columns) {
      const wanted = new Map(column.map((id) => {
        const near = around(id);
        return [id, near.length ? near.reduce((sum, value) => sum + value, 0) / near.length : y.get(id)];
      }));
      column.sort((one, two) => wanted.get(one) - wanted.get(two) || (one < two ? -1 : 1));
      let last = -Infinity;
      for (const id of column) { last = Math.max(wanted.get(id), last + step); y.set(id, last); }
      const drift = column.reduce((sum, id) => sum + y.get(id) - wanted.get(id), 0) / column.length;
      column.forEach((id) => y.set(id, y.get(id) - drift));
    }
  }
  const found = new Map();
  columns.forEach((column, depth) => column.forEach((id) =>
    found.set(id, { x: (columns.length - 1 - depth) * (BOX.width + BOX.across), y: y.get(id) })));
  return found;
};
