// The report of `distrun launch`: `data` is what run_record.h writes; docs/events.md describes the events.

const {run, events, samples} = data;
const timeOf = (one) => Date.parse(one.time) / 1000;
const begin = events.length > 0 ? timeOf(events[0]) : 0;
const sinceBegin = (one) => timeOf(one) - begin;
const end = Math.max(0.001, ...events.map(sinceBegin), ...samples.map(sinceBegin));
const last = events.find((one) => one.event === 'run_ended');
const ranks = [...new Set(events.filter((one) => one.event === 'worker_started').map((one) => one.rank))].sort((a, b) => a - b);
const restarts = events.filter((one) => one.event === 'attempt_failed').length;
const culprit = last && last.culprit ? last.culprit.rank : null;

function endText(one) {
  return one.signal ? `killed by ${one.signal}` : `exit code ${one.exit_code}`;
}

const hasFailed = (one) => one.signal !== undefined || one.exit_code !== 0;

function workerLane(rank) {
  const lane = {label: 'rank ' + rank, end: '', tone: 'good', spans: [], blocks: [], marks: []};
  const own = events.filter((one) => one.rank === rank);
  for (const started of own.filter((one) => one.event === 'worker_started')) {
    const ended = own.find((one) => one.event === 'worker_ended' && one.pid === started.pid && one.attempt === started.attempt);
    const from = sinceBegin(started), to = ended ? sinceBegin(ended) : end;
    const text = `Attempt ${started.attempt}, pid ${started.pid}: ran for ${duration(to - from)}` + (ended ? `, ${endText(ended)}` : '');
    lane.blocks.push({from, to, title: text});
    lane.end = ended ? endText(ended) : 'its end was not seen';
    lane.tone = ended && !hasFailed(ended) ? 'good' : !ended || isFirstFailure(ended) ? 'bad' : 'calm';
    if (ended && hasFailed(ended)) lane.marks.push({at: to, kind: isFirstFailure(ended) ? 'fail' : 'kill', title: `${text}, at ${duration(to)}`});
  }
  for (const one of events.filter((some) => some.event === 'stacks_read')) {
    lane.marks.push({at: sinceBegin(one), kind: 'note', title: `At ${duration(sinceBegin(one))}, distrun read the stacks: ${one.where}`});
  }
  return lane;
}

// The first worker of an attempt that failed; the ends of the others may be consequences.
function isFirstFailure(ended) {
  const decided = events.find((one) => (one.event === 'attempt_failed' && one.attempt === ended.attempt)
    || (one.event === 'run_ended' && !events.some((other) => other.event === 'attempt_failed' && other.attempt === ended.attempt)));
  return Boolean(decided && decided.culprit && decided.culprit.rank === ended.rank);
}

function lanesOfRun() {
  if (ranks.length === 0) return null;
  const lanes = ranks.map(workerLane), marks = lanes.flatMap((lane) => lane.marks.map((mark) => mark.kind));
  const legend = [['block', 'worker process, one bar for each attempt']];
  if (marks.includes('fail')) legend.push(['fail', 'the first failure']);
  if (marks.includes('kill')) legend.push(['kill', 'another worker that failed or was killed']);
  if (marks.includes('note')) legend.push(['note', 'distrun read the stacks']);
  return lanesFigure(lanes, end, legend, []);
}

function bytes(number) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  for (; number >= 1024 && unit < units.length - 1; ++unit) number /= 1024;
  return `${number >= 100 || unit === 0 ? Math.round(number) : number.toPrecision(3)} ${units[unit]}`;
}

// Of each rank: [{at, memory, cpu}]; cpu is in cores, between two samples of one process.
function loadOf(rank) {
  const points = [];
  let before = null;
  for (const sample of samples) {
    const own = sample.workers.find(([of]) => of === rank);
    const at = sinceBegin(sample);
    if (!own) { before = null; continue; }
    const [, cpuTime, memory] = own;
    const goesOn = before && cpuTime >= before.cpuTime;
    points.push({at, memory, cpu: goesOn ? (cpuTime - before.cpuTime) / (at - before.at) : null});
    before = {at, cpuTime};
  }
  return points;
}

const kColours = ['#3b6fd4', '#d9772e', '#3a9a5b', '#b54fb0', '#c9a227', '#2a9fb5', '#c6405a', '#7a7f87'];

// Lines over time, one for each rank.
function chart(title, text, valueOf) {
  const lines = ranks.map((rank, i) => ({rank, colour: kColours[i % kColours.length],
    points: loadOf(rank).filter((point) => valueOf(point) !== null).map((point) => [point.at, valueOf(point)])})).filter((line) => line.points.length > 1);
  if (lines.length === 0) return null;
  const top = Math.max(...lines.flatMap((line) => line.points.map(([, value]) => value))) || 1;
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  svg.setAttribute('viewBox', '0 0 1000 160');
  svg.setAttribute('preserveAspectRatio', 'none');
  for (const line of lines) {
    const made = document.createElementNS(svg.namespaceURI, 'polyline');
    made.setAttribute('points', line.points.map(([at, value]) => `${1000 * at / end},${155 - 150 * value / top}`).join(' '));
    made.setAttribute('stroke', line.colour);
    const tip = document.createElementNS(svg.namespaceURI, 'title');
    const values = line.points.map(([, value]) => value);
    tip.textContent = `rank ${line.rank}: at most ${text(Math.max(...values))}, at the end ${text(values[values.length - 1])}`;
    made.append(tip);
    svg.append(made);
  }
  const legend = lines.length > 16 ? [element('span', {}, 'Point at a line for its rank.')]
    : lines.map((line) => element('span', {}, element('span', {class: 'swatch', style: `background:${line.colour}`}), 'rank ' + line.rank));
  return element('figure', {class: 'chart'}, element('figcaption', {}, `${title}, at most ${text(top)}`), svg, element('div', {class: 'legend'}, ...legend));
}

// What the console would not show line by line.
const kTexts = {
  run_started: (one) => `The run started with ${count(one.workers, 'worker')}; store ${one.store}`,
  node_notice: (one) => one.text,
  attempt_started: (one) => (one.attempt === 0 ? null : `Restart ${one.attempt}`),
  worker_started: () => null,
  worker_ended: (one) => (hasFailed(one) ? `rank ${one.rank}: ${endText(one)} after ${duration(one.run_time_s)}` : null),
  output_leaked: (one) => `rank ${one.rank} ended, but another process held its output open`,
  leaked_processes_killed: (one) => 'Killed processes that workers left behind: ' + one.processes.map((process) => `${process.name} (${process.pid})`).join(', '),
  signal_received: (one) => `distrun received ${one.signal}` + (one.forwarded ? ' and forwarded it' : ''),
  run_suspended: () => 'The run was suspended (Ctrl-Z)',
  run_continued: () => 'The run was continued',
  workers_still_running: (one) => `Still running: ${rankList(one.workers.map((worker) => worker.rank))}`
    + (one.kill_in_s === undefined ? '' : `; SIGKILL in ${duration(one.kill_in_s)}`),
  stacks_read: (one) => 'Where the workers were: ' + one.where,
  attempt_failed: (one) => `Attempt ${one.attempt} failed` + (one.culprit ? `: rank ${one.culprit.rank}, ${endText(one.culprit)}` : ` (${one.cause})`),
  run_ended: (one) => (one.cause === 'succeeded' ? 'The run succeeded' : `The run ended (${one.cause.replaceAll('_', ' ')}); exit status ${one.exit_status}`),
};

function eventRow(one) {
  const text = kTexts[one.event] ? kTexts[one.event](one) : one.event;
  if (text === null) return null;
  const stacks = one.stacks ? element('pre', {}, one.stacks.replace(/\n+$/, '')) : null;
  return element('tr', {}, element('td', {class: 'number'}, duration(sinceBegin(one)).replace(/^0 µs$/, '0')), element('td', {class: 'reason'}, text, stacks));
}

function outputs() {
  const attempts = Math.max(0, ...data.output.map((one) => one.attempt));
  return data.output.filter((one) => one.text !== '').sort((a, b) => b.attempt - a.attempt || (b.rank === culprit) - (a.rank === culprit) || a.rank - b.rank)
    .map((one) => element('details', {open: one.attempt === attempts && (one.rank === culprit || ranks.length === 1)},
      element('summary', {}, element('strong', {}, 'rank ' + one.rank), attempts > 0 ? `, attempt ${one.attempt}` : ''),
      element('div', {}, element('pre', {}, plain(one.text).replace(/\n+$/, '')))));
}

function section(title, ...parts) {
  const shown = parts.flat().filter(Boolean);
  return shown.length === 0 ? null : element('section', {}, element('h2', {}, title), ...shown);
}

function facts() {
  return [events.length > 0 && events[0].time.slice(0, 19).replace('T', ' ') + ' UTC', `host ${run.host}` + (run.nodes > 1 ? ` (node ${run.node_rank} of ${run.nodes})` : ''),
    'took ' + duration(end), count(run.workers, 'worker'), restarts > 0 && count(restarts, 'restart'), last && `exit status ${last.exit_status}`]
    .filter(Boolean).join(' · ');
}

const heading = run.succeeded ? `The run succeeded` : run.headline;
const main = document.querySelector('main');
main.append(element('header', {}, element('h1', {class: run.succeeded ? 'good' : 'bad'}, heading), element('p', {class: 'facts'}, facts())),
  command('Command:', run.command));
const memory = chart('Memory of the worker processes', bytes, (point) => point.memory);
const cpu = chart('CPU use of the worker processes', (value) => value.toFixed(value < 10 ? 2 : 0) + ' cores', (point) => point.cpu);
const rows = events.map(eventRow).filter(Boolean);
const leftOut = run.events_left_out > 0 ? element('p', {class: 'note'}, `${run.events_left_out} events in the middle are left out.`) : null;
const texts = outputs();
main.append(...[section('Workers', lanesOfRun(), cpu, memory),
  section('Summary', run.summary ? element('pre', {}, plain(run.summary).replace(/^\n+|\n+$/g, '')) : null),
  section('What happened', element('table', {class: 'events'}, element('tbody', {}, ...rows)), leftOut),
  section('Output', texts.length > 0 ? texts : element('p', {class: 'note'}, 'distrun read no output: the workers wrote none, or it is in log files.'))].filter(Boolean));
