'use strict';

// Text is inserted as text only, so that output of programs cannot become markup.
function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === 'onclick' || name === 'oninput') made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? '' : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

function duration(seconds) {
  if (seconds <= 0) return '0';
  if (seconds < 0.001) return Math.round(seconds * 1e6) + ' µs';
  if (seconds < 1) return Number((seconds * 1e3).toPrecision(3)) + ' ms';
  if (seconds < 100) return seconds.toFixed(seconds < 10 ? 2 : 1) + ' s';
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return minutes + ' min ' + Math.floor(seconds % 60) + ' s';
  return Math.floor(minutes / 60) + ' h ' + (minutes % 60) + ' min';
}

// Allows line breaks after dots and underscores.
function breakable(name) {
  return name.split(/(?<=[._])/).flatMap((part, i) => (i === 0 ? [part] : [element('wbr'), part]));
}

function count(number, one, many) {
  return number + ' ' + (number === 1 ? one : many || one + 's');
}

// "ranks 0, 1, 3".
function rankList(ranks) {
  return (ranks.length === 1 ? 'rank ' : 'ranks ') + ranks.join(', ');
}

// As on a terminal: without colours and cursor movements, and with '\r' applied.
function plain(text) {
  return text.replace(/\x1b\][^\x07\x1b]*(\x07|\x1b\\)/g, '').replace(/\x1b\[[0-9;?]*[ -\/]*[@-~]/g, '').replace(/\x1b[ -\/]*[0-~]/g, '')
    .replace(/\r+\n/g, '\n').split('\n').map(overwritten).join('\n').replace(/\n+$/, '')
    .replace(/[\0-\x08\x0b-\x1f\x7f]/g, (c) => (c === '\x7f' ? '␡' : String.fromCharCode(0x2400 + c.charCodeAt(0))));
}

// "12 %\r13 %" shows "13 %".
function overwritten(line) {
  if (!line.includes('\r')) return line;
  // The last part covers the start of the others.
  return line.split('\r').reduceRight((shown, earlier) => (earlier.length > shown.length ? shown + earlier.slice(shown.length) : shown), '');
}

function block(title, text) {
  return element('div', {}, element('div', {class: 'note'}, title), element('pre', {}, plain(text)));
}

// The content is created when it is opened.
function folded(isOpen, summary, ...make) {
  const content = element('div'), fill = () => {
    if (content.childElementCount === 0) content.append(...make.flatMap((one) => one()));
  };
  const made = element('details', {open: isOpen}, element('summary', {}, ...summary), content);
  if (isOpen) fill();
  made.addEventListener('toggle', fill);
  return made;
}

function copyButton(text) {
  const button = element('button', {type: 'button', onclick: () => {
    const say = (word) => { button.textContent = word; setTimeout(() => { button.textContent = 'Copy'; }, 2000); };
    navigator.clipboard.writeText(text).then(() => say('Copied'), () => say('Copying failed'));
  }}, 'Copy');
  return button;
}

function command(label, text) {
  return element('div', {class: 'command'}, element('span', {class: 'note'}, label), element('code', {}, text), copyButton(text));
}

// A step of 1, 2 or 5 times a power of ten that gives at most six ticks.
function tickStep(range) {
  const power = Math.pow(10, Math.floor(Math.log10(range / 6)));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => range / step <= 6);
}

// "0", "20 ms", "1.5 s": exact enough to distinguish ticks that are `step` apart.
function tick(time, step, last) {
  if (time < step / 1000) return '0';
  const [unit, name] = last < 2e-3 ? [1e-6, 'µs'] : last < 2 ? [1e-3, 'ms'] : [1, 's'];
  const digits = Math.max(0, Math.ceil(-Math.log10(step / unit) - 1e-9));
  return `${(time / unit).toFixed(digits)} ${name}`;
}

const kShortestTime = 1e-6;
const kMarks = {fail: '✕', kill: '■', note: '◆'};

// A figure with a lane for each rank on one time axis.
//   lanes: [{label, end, spans: [{from, to, title}], blocks: [{from, to, title, open}], marks: [{at, kind, title}]}]
//   legend: [[kind, text]], where kind is span, block, open or a mark's
//   zooms: [[text, [from, to]]], for buttons
//   charts: [{label, end, draw: ([from, to]) => svg}], below the lanes, on the same axis
// Dragging over a lane shows that time; a double click shows all.
function lanesFigure(lanes, end, legend, zooms, charts = []) {
  const whole = [0, end * 1.01];  // Shows marks at the end whole.
  let shown = whole;
  const body = element('div', {class: 'lanes'});
  const controls = element('div', {class: 'filters'});
  const figure = element('figure', {}, controls, body);
  const percent = (time) => 100 * (time - shown[0]) / (shown[1] - shown[0]);
  const style = (from, to) => `left:${percent(from)}%;width:${percent(to) - percent(from)}%`;
  const isShown = (from, to) => to >= shown[0] && from <= shown[1];

  function track(lane) {
    const made = element('div', {class: 'track'});
    for (const span of lane.spans.filter((one) => isShown(one.from, one.to))) {
      made.append(element('div', {class: 'span', style: style(span.from, span.to), title: span.title}));
    }
    for (const one of lane.blocks.filter((some) => isShown(some.from, some.to))) {
      made.append(element('div', {class: one.open ? 'block open' : 'block', style: style(one.from, one.to), title: one.title}));
    }
    for (const mark of lane.marks.filter((one) => isShown(one.at, one.at))) {
      made.append(element('div', {class: 'mark ' + mark.kind, style: `left:${percent(mark.at)}%`, title: mark.title}, kMarks[mark.kind]));
    }
    made.addEventListener('pointerdown', (down) => zoomByDragging(made, down));
    made.addEventListener('dblclick', () => draw(whole));
    return made;
  }

  function zoomByDragging(track, down) {
    const place = track.getBoundingClientRect();
    const clamp = (event) => Math.min(Math.max(event.clientX - place.left, 0), place.width);
    const from = clamp(down), chosen = element('div', {class: 'chosen'});
    const mark = (event) => {
      const to = clamp(event);
      chosen.setAttribute('style', `left:${Math.min(from, to)}px;width:${Math.abs(to - from)}px`);
    };
    track.append(chosen);
    track.setPointerCapture(down.pointerId);
    track.addEventListener('pointermove', mark);
    const finish = (event) => {
      track.removeEventListener('pointermove', mark);
      chosen.remove();
      const [first, last] = [from, clamp(event)].sort((a, b) => a - b);
      const timeAt = (x) => shown[0] + x / place.width * (shown[1] - shown[0]);
      if (event.type === 'pointerup' && last - first > place.width / 50) draw([timeAt(first), timeAt(last)]);
    };
    track.addEventListener('pointerup', finish, {once: true});
    track.addEventListener('pointercancel', finish, {once: true});
  }

  function axis() {
    const ticks = element('div', {class: 'track'});
    const step = tickStep(shown[1] - shown[0]), first = Math.ceil(shown[0] / step);
    for (let i = 0; i <= 6 && (first + i) * step <= shown[1]; ++i) {
      const time = (first + i) * step;
      ticks.append(element('span', {style: `left:${percent(time)}%`}, tick(time, step, shown[1])));
    }
    return element('div', {class: 'lane axis'}, element('span'), ticks, element('span'));
  }

  function chartRow(chart) {
    return element('div', {class: 'lane'}, element('span', {class: 'label'}, chart.label),
      element('div', {class: 'chart'}, chart.draw(shown)), element('span', {class: 'end calm'}, chart.end));
  }

  function draw(range) {
    if (range[1] - range[0] < kShortestTime) return;
    shown = range;
    body.replaceChildren(...lanes.map((lane) => element('div', {class: 'lane'},
      element('span', {class: 'label', title: lane.label}, lane.label), track(lane),
      element('span', {class: 'end ' + (lane.tone || 'calm'), title: lane.end}, lane.end))), axis(), ...charts.map(chartRow));
    for (const {button, to} of buttons) button.setAttribute('aria-pressed', String(to === shown));
    controls.hidden = zooms.length === 0 && shown === whole;
  }

  const buttons = [['Whole time', whole], ...zooms].map(([text, to]) => ({to, button: element('button', {type: 'button', onclick: () => draw(to)}, text)}));
  controls.append(...buttons.map(({button}) => button));
  draw(whole);
  figure.append(element('div', {class: 'legend'}, ...legend.map(([kind, text]) => element('span', {},
    element('span', {class: 'sample'}, kMarks[kind] ? element('span', {class: 'mark ' + kind}, kMarks[kind])
      : element('span', {class: kind === 'open' ? 'block open' : kind})), text)),
    element('span', {}, 'Point at a bar for details; drag over a lane to zoom, double-click to see all.')));
  return figure;
}

// A table whose columns sort and whose rows open a detail.
//   columns: [{name, class, title, of: (item) => sortable value, cell: (item) => node}]
function sortableTable(columns, items, detail) {
  let sorted = null, descending = false, filtered = () => true;
  const body = element('tbody');
  const rows = new Map();
  const heads = columns.map((column, i) => element('th', {class: column.class, title: column.title, scope: 'col'},
    element('button', {type: 'button', onclick: () => sortBy(i)}, column.name)));
  const table = element('table', {class: 'tests'}, element('thead', {}, element('tr', {}, ...heads)), body);

  function open(item, isOpen) {
    const row = rowOf(item);
    row.open = isOpen;
    row.line.classList.toggle('open', isOpen);
    row.line.querySelector('a').setAttribute('aria-expanded', String(isOpen));
    if (!isOpen && row.detail) row.detail.remove();
    if (!isOpen) return row.line;
    row.detail = row.detail || element('tr', {class: 'detail'}, element('td', {colspan: columns.length}, detail(item)));
    row.line.after(row.detail);
    return row.line;
  }

  // Ascending, descending, then the original order.
  function sortBy(column) {
    if (sorted !== column) [sorted, descending] = [column, false];
    else if (!descending) descending = true;
    else [sorted, descending] = [null, false];
    draw();
  }

  function clicked(item, event) {
    if (event.ctrlKey || event.metaKey || event.shiftKey || String(getSelection()) !== '') return;
    event.preventDefault();
    open(item, !rows.get(item).open);
    const link = rows.get(item).line.querySelector('a').getAttribute('href');
    if (rows.get(item).open) history.replaceState(null, '', link);
  }

  function rowOf(item) {
    if (!rows.has(item)) {
      const line = element('tr', {class: 'row', onclick: (event) => clicked(item, event)}, ...columns.map((column) => element('td', {class: column.class}, column.cell(item))));
      line.querySelector('a').addEventListener('keydown', (event) => {
        if (event.key === ' ') clicked(item, event);
      });
      rows.set(item, {line, open: false});
    }
    return rows.get(item);
  }

  function draw() {
    const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0) * (descending ? -1 : 1);
    const inOrder = sorted === null ? [...items] : [...items].sort((a, b) => compare(columns[sorted].of(a), columns[sorted].of(b)));
    const shown = inOrder.filter(filtered);
    body.replaceChildren(...shown.flatMap((item) => {
      const row = rowOf(item);
      return row.open ? [row.line, row.detail] : [row.line];
    }));
    if (shown.length === 0) {
      body.append(element('tr', {}, element('td', {class: 'empty', colspan: columns.length}, items.length === 0 ? 'No test was selected.' : 'No test matches these filters.')));
    }
    heads.forEach((head, i) => {
      head.setAttribute('aria-sort', i !== sorted ? 'none' : descending ? 'descending' : 'ascending');
      head.firstChild.textContent = columns[i].name + (i !== sorted ? '' : descending ? ' ↓' : ' ↑');
    });
  }

  draw();
  return {table, open, filter: (matches) => { filtered = matches; draw(); }};
}

const data = JSON.parse(document.getElementById('data').textContent);
