// The report of `distrun launch`: run_record.h describes `data`, docs/events.md the events.

const {run, events, samples} = data;
const timeOf = (one) => Date.parse(one.time) / 1000;
const begin = events.length > 0 ? timeOf(events[0]) : 0;
// Events have milliseconds.
const sinceBegin = (one) => Math.round((timeOf(one) - begin) * 1000) / 1000;
const time = (seconds) => (seconds < 0.001 ? '< 1 ms' : duration(Math.round(seconds * 1000) / 1000));
const end = Math.max(0.001, ...events.map(sinceBegin), ...samples.map(sinceBegin));
const last = events.find((one) => one.event === 'run_ended');
const ranks = [...new Set(events.filter((one) => one.event === 'worker_started').map((one) => one.rank))].sort((a, b) => a - b);
const culprit = last && last.culprit ? last.culprit.rank : null;
const attempts = events.filter((one) => one.event === 'attempt_started').map((one) => one.attempt);
const culprits = new Map(events.filter((one) => one.event === 'attempt_failed' && one.culprit).map((one) => [one.attempt, one.culprit.rank]));
if (culprit !== null) culprits.set(attempts[attempts.length - 1], culprit);

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
    const text = `Attempt ${started.attempt}, pid ${started.pid}: ` + (ended ? `ran for ${time(ended.run_time_s)}, ${endText(ended)}` : 'no end is known');
    lane.blocks.push({from, to, title: text});
    lane.end = ended ? endText(ended) : 'no end is known';
    lane.tone = ended && !hasFailed(ended) ? 'good' : !ended || isFirstFailure(ended) ? 'bad' : 'calm';
    if (ended && hasFailed(ended)) lane.marks.push({at: to, kind: isFirstFailure(ended) ? 'fail' : 'kill', title: `${text}, at ${time(to)}`});
  }
  for (const one of events.filter((some) => some.event === 'stacks_read')) {
    lane.marks.push({at: sinceBegin(one), kind: 'note', title: `At ${time(sinceBegin(one))}: ${whereText(one)}`});
  }
  return lane;
}

// The first failed worker of an attempt; later failures may be consequences.
function isFirstFailure(ended) {
  return culprits.get(ended.attempt) === ended.rank;
}

function lanesOfRun() {
  if (ranks.length === 0) return null;
  const lanes = ranks.map(workerLane), marks = lanes.flatMap((lane) => lane.marks.map((mark) => mark.kind));
  const legend = [['block', 'worker process, one bar for each attempt']];
  if (marks.includes('fail')) legend.push(['fail', 'the first failure']);
  if (marks.includes('kill')) legend.push(['kill', 'another worker that failed or was killed']);
  if (marks.includes('note')) legend.push(['note', 'distrun read the stacks']);
  const failures = lanes.flatMap((lane) => lane.marks).filter((mark) => mark.kind === 'fail').map((mark) => mark.at);
  const around = (at) => [Math.max(at - Math.max(end / 50, 0.01), 0), at + Math.max(end / 50, 0.01)];
  const zooms = failures.length > 0 && end > 0.2 ? [['Zoom to the first failure', around(Math.min(...failures))]] : [];
  if (failures.length > 1) zooms.push(['Zoom to the last failure', around(Math.max(...failures))]);
  return lanesFigure(lanes, end, legend, zooms, charts);
}

function bytes(number) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  for (; number >= 1024 && unit < units.length - 1; ++unit) number /= 1024;
  return `${number >= 100 || unit === 0 ? Math.round(number) : number.toPrecision(3)} ${units[unit]}`;
}

const starts = new Map(ranks.map((rank) => [rank, events.filter((one) => one.event === 'worker_started' && one.rank === rank).map(sinceBegin)]));

// For each process of the rank: [{at, memory, cpu}]; cpu is in cores, since the previous sample or
// the start.
function loadOf(rank) {
  const processes = [];
  let before = null;
  for (const sample of samples) {
    const own = sample.workers.find(([of]) => of === rank);
    if (!own) { before = null; continue; }
    const [, cpuTime, memory] = own, at = sinceBegin(sample);
    const isNew = before === null || cpuTime < before.cpuTime || starts.get(rank).some((started) => started > before.at && started <= at);
    if (isNew) processes.push([]);
    // The start is unknown if the report omits the attempt.
    const started = starts.get(rank).filter((time) => time > (before ? before.at : -1) && time < at).pop();
    const [cpuBefore, since] = !isNew ? [before.cpuTime, before.at] : [0, started];
    processes[processes.length - 1].push({at, memory, cpu: since === undefined ? null : (cpuTime - cpuBefore) / (at - since)});
    before = {at, cpuTime};
  }
  return processes;
}

const kColours = ['#3b6fd4', '#d9772e', '#3a9a5b', '#b54fb0', '#c9a227', '#2a9fb5', '#c6405a', '#7a7f87'];

function svgElement(tag, attributes, ...children) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// A line for each process of each rank.
function chart(label, text, loads, valueOf) {
  const lines = loads.flatMap(({rank, colour, processes}) => processes.map((points) => ({rank, colour,
    points: points.filter((point) => valueOf(point) !== null).map((point) => [point.at, valueOf(point)])})).filter((line) => line.points.length > 1));
  if (lines.length === 0) return null;
  const most = Math.max(...lines.flatMap((line) => line.points.map(([, value]) => value))), top = most > 0 ? most : 1;
  const draw = ([from, to]) => svgElement('svg', {viewBox: '0 0 1000 100', preserveAspectRatio: 'none'}, ...lines.map((line) => {
    const values = line.points.map(([, value]) => value);
    const tip = `rank ${line.rank}: at most ${text(Math.max(...values))}, at the end ${text(values[values.length - 1])}`;
    const points = line.points.map(([at, value]) => `${1000 * (at - from) / (to - from)},${97 - 94 * value / top}`).join(' ');
    return svgElement('polyline', {points, stroke: line.colour}, svgElement('title', {}, tip));
  }));
  return {label, end: `at most ${text(most)}`, draw};
}

function makeCharts() {
  const loads = ranks.map((rank, i) => ({rank, colour: kColours[i % kColours.length], processes: loadOf(rank)}));
  return [chart('CPU use', (value) => value.toFixed(value < 10 ? 2 : 0) + ' cores', loads, (point) => point.cpu),
    chart('Memory', bytes, loads, (point) => point.memory)].filter(Boolean);
}

function chartNote() {
  if (charts.length === 0) return null;
  const colours = ranks.length > kColours.length ? ['Point at a line for its rank.']
    : ranks.map((rank, i) => element('span', {}, element('span', {class: 'swatch', style: `background:${kColours[i]}`}), 'rank ' + rank));
  return element('div', {class: 'legend'}, ...colours, element('span', {}, 'CPU use and memory are those of the worker processes, without their children.'));
}

// Events that the console does not show line by line.
const kTexts = {
  run_started: (one) => `The run started with ${count(one.workers, 'worker')}${run.nodes > 1 ? ' on this node' : ''}; store ${one.store}`,
  node_notice: (one) => one.text,
  attempt_started: restartText,
  worker_started: () => null,
  worker_ended: (one) => (hasFailed(one) ? `rank ${one.rank}: ${endText(one)} after ${time(one.run_time_s)}` : null),
  output_leaked: (one) => `rank ${one.rank} ended, but another process held its output open`,
  leaked_processes_killed: (one) => 'Killed processes that workers left behind: ' + one.processes.map((process) => `${process.name} (${process.pid})`).join(', '),
  signal_received: (one) => `distrun received ${one.signal}` + (one.forwarded ? ' and forwarded it' : ''),
  run_suspended: () => 'The run was suspended (Ctrl-Z)',
  run_continued: () => 'The run was continued',
  workers_still_running: (one) => `Still running: ${rankList(one.workers.map((worker) => worker.rank))}`
    + (one.kill_in_s === undefined ? '' : `; SIGKILL in ${duration(one.kill_in_s)}`),
  stacks_read: whereText,
  straggler_found: (one) => `Rank ${one.rank} delays the others: it entered ${one.times_last} of ${one.collectives} collectives of group ${one.group} last`
    + ` (${Math.round(one.share * 100)} % of each step)`,
  calls_differ: (one) => 'Ranks disagree: ' + one.text,
  values_differ: (one) => 'Values differ: ' + one.text,
  recording_differs: (one) => 'The run differs from the recorded one: ' + one.text,
  attempt_failed: (one) => `Attempt ${one.attempt} failed` + (one.culprit ? `: rank ${one.culprit.rank}, ${endText(one.culprit)}` : ` (${one.cause})`),
  run_ended: (one) => (one.cause === 'succeeded' ? 'The run succeeded' : `The run ended (${one.cause.replaceAll('_', ' ')}); exit status ${one.exit_status}`),
};

function whereText(one) {
  return [one.collectives && 'Collectives: ' + one.collectives, one.nccl && 'NCCL: ' + one.nccl, one.where && 'Where the workers were: ' + one.where]
    .filter(Boolean).join('. ');
}

// Of a run that hung: the evidence that distrun read before it stopped the workers.
function whereRunHung() {
  if (!last || !['hung', 'timed_out'].includes(last.cause)) return null;
  const evidence = events.filter((one) => one.event === 'stacks_read' && one.attempt === attempts.at(-1)).at(-1);
  return evidence ? whereText(evidence) : null;
}

// If a run restarts very often, the record lacks attempts in the middle.
function restartText(one) {
  if (one.attempt === 0) return null;
  const before = attempts[attempts.indexOf(one.attempt) - 1];
  return (before + 1 < one.attempt ? `The report leaves out attempts ${before + 1} to ${one.attempt - 1}. ` : '') + `Restart ${one.attempt}`;
}

function eventRow(one) {
  const text = kTexts[one.event] ? kTexts[one.event](one) : one.event;
  if (text === null) return null;
  const stacks = one.stacks ? element('pre', {}, one.stacks.replace(/\n+$/, '')) : null;
  return element('tr', {}, element('td', {class: 'number'}, sinceBegin(one) <= 0 ? '0' : time(sinceBegin(one))), element('td', {class: 'reason'}, text, stacks));
}

function outputs() {
  const newest = Math.max(0, ...data.output.map((one) => one.attempt));
  return data.output.filter((one) => one.text !== '').sort((a, b) => b.attempt - a.attempt || (b.rank === culprit) - (a.rank === culprit) || a.rank - b.rank)
    .map((one) => folded(one.attempt === newest && (one.rank === culprit || ranks.length === 1),
      [element('strong', {}, 'rank ' + one.rank), newest > 0 ? `, attempt ${one.attempt}` : ''], () => [element('pre', {}, plain(one.text))]));
}

function section(title, ...parts) {
  const shown = parts.flat().filter(Boolean);
  return shown.length === 0 ? null : element('section', {}, element('h2', {}, title), ...shown);
}

function facts() {
  return [events.length > 0 && events[0].time.slice(0, 19).replace('T', ' ') + ' UTC', `host ${run.host}` + (run.nodes > 1 ? ` (node rank ${run.node_rank}, ${run.nodes} nodes)` : ''),
    'took ' + duration(end), count(run.workers, 'worker') + (run.nodes > 1 ? ' on this node' : ''), run.restarts > 0 && count(run.restarts, 'restart'), last && `exit status ${last.exit_status}`]
    .filter(Boolean).join(' · ');
}

const charts = makeCharts();
const main = document.querySelector('main');
main.append(element('header', {}, element('h1', {class: run.succeeded ? 'good' : 'bad'}, run.headline),
  whereRunHung() ? element('p', {class: 'where'}, whereRunHung()) : null, element('p', {class: 'facts'}, facts())),
  command('Command:', run.command));
const rows = events.map(eventRow).filter(Boolean);
const history = () => [element('table', {class: 'events'}, element('tbody', {}, ...rows))];
const texts = outputs();
const kRowsShown = 100;
main.append(...[section('Workers', lanesOfRun(), chartNote()),
  section('Summary', run.summary ? element('pre', {}, plain(run.summary).replace(/^\n+/, '')) : null),
  section('Output', texts.length > 0 ? texts : element('p', {class: 'note'}, 'distrun read no output: the workers wrote none, or it is in log files.')),
  section('What happened', run.events_left_out > 0 ? element('p', {class: 'note'}, `${count(run.events_left_out, 'event')} in the middle left out.`) : null,
    rows.length <= kRowsShown ? history() : folded(false, [count(rows.length, 'event')], history))].filter(Boolean));
