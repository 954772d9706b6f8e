// The report of `distrun test`: result_json.h describes `data`.

const kStatuses = {
  failed: {word: '✘ failed', tone: 'bad', order: 0, title: 'The last attempt failed.'},
  interrupted: {word: '✘ interrupted', tone: 'bad', order: 1, title: 'The run was interrupted while this test ran.'},
  flaky: {word: '↻ flaky', tone: 'odd', order: 2, title: 'Passed after a failed attempt.'},
  'not run': {word: '– not run', tone: 'odd', order: 3, title: 'The run ended before this test started.'},
  skipped: {word: '⊘ skipped', tone: 'calm', order: 4, title: 'The test did not run, or skipped itself.'},
  passed: {word: '✔ passed', tone: 'good', order: 5, title: 'Every rank passed.'},
};

const kRankWords = {
  passed: 'passed', failed: 'failed', skipped: 'skipped', crashed: 'crashed', timed_out: 'did not end', exited: 'exited during its test',
};

const statusOf = (test) => (test.status === 'interrupted' && test.attempt === 0 ? 'not run' : test.status);
const nameOf = (test) => test.id + (repeats ? ' #' + (test.repetition + 1) : '');
const repeats = data.tests.some((test) => test.repetition > 0);

function tone() {
  const {passed, failed, flaky, not_run: notRun} = data.summary;
  if (failed > 0) return 'bad';
  return notRun > 0 || flaky > 0 || passed === 0 ? 'odd' : 'good';
}

function facts() {
  const {summary} = data;
  return [data.began.slice(0, 19).replace('T', ' ') + ' UTC', data.host && 'host ' + data.host, 'took ' + duration(summary.seconds),
    data.binaries.map((path) => path.split('/').pop()).join(', '), 'seed ' + data.seed, `at most ${count(data.jobs, 'rank')} at a time`]
    .filter(Boolean).join(' · ');
}

function rankEnd(rank) {
  const word = kRankWords[rank.status] || rank.status;
  const why = rank.status === 'skipped' ? rank.skip_reason : rank.end;
  return why ? `${word}: ${why}` : word;
}

const kBlamed = ' ◀ to blame';
const isBlamed = (attempt, rank) => attempt.status === 'failed' && attempt.culprits[0] === rank.rank;

// A rank killed because another one failed is not marked as bad.
function toneOf(attempt, rank) {
  if (isBlamed(attempt, rank)) return 'bad';
  if (rank.status === 'passed') return 'good';
  const first = attempt.ranks.find((one) => isBlamed(attempt, one));
  const isVictim = rank.status === 'timed_out' && first && first.status !== 'timed_out';
  return rank.status === 'skipped' || isVictim ? 'calm' : 'bad';
}

function laneOf(attempt, rank, end) {
  const from = rank.began_s, to = rank.ended_s === null ? end : rank.ended_s;
  const lane = {label: 'rank ' + rank.rank, end: rankEnd(rank) + (isBlamed(attempt, rank) ? kBlamed : ''), tone: toneOf(attempt, rank),
    spans: [], blocks: [], marks: []};
  if (from === null) return lane;
  lane.spans.push({from, to, title: `The process ran for ${duration(to - from)}.`});
  rank.operations.forEach(([op, tensors, began, ended, completed], i) => {
    const what = `${op} ${tensors} (operation ${rank.operations_left_out + i + 1} of this rank)`;
    const open = !completed, isUnknown = completed && ended === null;
    lane.blocks.push({from: began, to: open ? to : isUnknown ? began : ended, open, title: open ? `${what}: began at ${duration(began)} and did not end`
      : isUnknown ? `${what}: began at ${duration(began)} and ended at an unknown time` : `${what}: ${duration(ended - began)}, from ${duration(began)} to ${duration(ended)}`});
  });
  for (const failure of rank.failures.filter((one) => one.at_s !== null)) {
    lane.marks.push({at: failure.at_s, kind: 'fail', title: `At ${duration(failure.at_s)}: ${failure.message.split('\n')[0]}`});
  }
  if (rank.ended_s !== null && ['crashed', 'timed_out', 'exited'].includes(rank.status)) {
    lane.marks.push({at: rank.ended_s, kind: 'kill', title: `At ${duration(rank.ended_s)}: ${rankEnd(rank)}`});
  }
  return lane;
}

function lanesOf(attempt) {
  if (attempt.ranks.every((rank) => rank.began_s === null)) return null;
  const ends = attempt.ranks.flatMap((rank) => [rank.ended_s, rank.began_s]).filter((time) => time !== null);
  const end = Math.max(attempt.seconds, 0.001, ...ends);
  const lanes = attempt.ranks.map((rank) => laneOf(attempt, rank, end));
  const blocks = lanes.flatMap((lane) => lane.blocks), marks = lanes.flatMap((lane) => lane.marks);
  const legend = [['span', 'process of the rank']];
  if (blocks.some((one) => !one.open)) legend.push(['block', 'collective, send or receive that ended, perhaps with an error']);
  if (blocks.some((one) => one.open)) legend.push(['open', 'collective, send or receive that did not end']);
  if (marks.some((one) => one.kind === 'fail')) legend.push(['fail', 'failed assertion or exception']);
  if (marks.some((one) => one.kind === 'kill')) legend.push(['kill', 'crashed, exited early or was killed']);
  // Collectives may be much shorter than the timeout that follows them.
  const zooms = [];
  const times = blocks.flatMap((one) => (one.open ? [one.from] : [one.from, one.to]));
  if (times.length > 0) {
    const from = Math.min(...times), to = Math.max(...times), around = Math.max((to - from) / 20, 0.0005);
    if (to - from < end / 4) zooms.push(['Zoom to the collectives', [Math.max(from - around, 0), to + around]]);
  }
  const failed = Math.min(...marks.map((mark) => mark.at));
  if (failed < end / 4) zooms.push(['Zoom to the first failure', [0, failed * 1.5]]);
  return lanesFigure(lanes, end, legend, zooms);
}

function collectivesText(rank) {
  return rank.collectives.map((one) => {
    const inputs = one.sizes.map((sizes) => `[${sizes.join(', ')}]`).join(' ');
    return `${one.count} × ${[one.op, one.dtype, inputs].filter(Boolean).join(' ')}`;
  }).join('\n');
}

// Shows times like the lanes do.
function operationsText(rank) {
  const lines = rank.operations.map(([op, tensors, began, ended, completed]) => `at ${duration(began).padEnd(9)} ${
    (!completed ? 'did not end' : ended === null ? 'end unknown' : 'for ' + duration(ended - began)).padEnd(12)} ${op} ${tensors}`);
  return [...(rank.operations_left_out > 0 ? [`… ${rank.operations_left_out} earlier ones`] : []), ...lines].join('\n');
}

// Everything about ranks that differ only in their times.
function accountOf(ranks) {
  const [rank] = ranks;
  const parts = rank.failures.map((failure) => block(failure.file ? `${failure.file}:${failure.line}` : 'Failure', failure.message));
  if (rank.stands_at) parts.push(block('Call stack at the time limit', rank.stands_at));
  if (rank.leaked_processes.length > 0) parts.push(block('Processes that it left behind; distrun killed them', rank.leaked_processes.join('\n')));
  if (rank.output) parts.push(block('Output', rank.output));
  if (rank.collectives.length > 0) parts.push(block('Collectives that it started', collectivesText(rank)));
  for (const one of ranks.filter((some) => some.operations.length > 0)) {
    parts.push(folded(false, [`Collectives, sends and receives of rank ${one.rank} in time`], () => [element('pre', {}, operationsText(one))]));
  }
  const numbers = rank.assertions > 0 ? [element('p', {class: 'note'}, count(rank.assertions, 'assertion') + ' checked')] : [];
  return [...parts, ...numbers];
}

// Shows equal texts once, culprits first.
function accountsOf(attempt) {
  const place = (rank) => { const at = attempt.culprits.indexOf(rank.rank); return at < 0 ? attempt.culprits.length : at; };
  const groups = new Map();
  for (const rank of [...attempt.ranks].sort((a, b) => place(a) - place(b))) {
    const key = JSON.stringify([rank.status, rank.end, rank.skip_reason, rank.assertions, rank.failures.map((one) => [one.file, one.line, one.message]),
      rank.stands_at, rank.output, rank.collectives, rank.leaked_processes]);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(rank);
  }
  return [...groups.values()].map((ranks) => {
    const [first] = ranks;
    const blamed = ranks.some((rank) => isBlamed(attempt, rank));
    const numbers = ranks.map((rank) => rank.rank).sort((a, b) => a - b);
    return folded(blamed, [element('strong', {}, rankList(numbers)), ' ',
      element('span', {class: toneOf(attempt, first)}, rankEnd(first) + (blamed ? kBlamed : ''))], () => accountOf(ranks));
  });
}

// Of all ranks of an attempt that hung.
function stacksOf(attempt) {
  if (!attempt.stacks) return null;
  const line = attempt.where && !attempt.reason.includes(attempt.where) ? [element('p', {}, attempt.where)] : [];
  return folded(true, [element('strong', {}, 'Where the ranks were')], () => [...line, element('pre', {}, attempt.stacks.replace(/\n+$/, ''))]);
}

function attemptSection(attempt, number, attempts) {
  const title = attempts > 1 ? element('h2', {}, `Attempt ${number} of ${attempts}: ${attempt.status} after ${duration(attempt.seconds)}`) : null;
  return element('section', {class: 'attempt'}, title,
    attempt.reason ? element('p', {class: 'headline'}, attempt.reason) : null, lanesOf(attempt), stacksOf(attempt), ...accountsOf(attempt));
}

function detailOf(test) {
  const last = {...test, status: test.status === 'flaky' ? 'passed' : test.status, reason: test.status === 'flaky' ? '' : test.reason,
    seconds: test.seconds - test.earlier_attempts.reduce((sum, one) => sum + one.seconds, 0)};
  const attempts = test.attempt === 0 ? [] : [...test.earlier_attempts, last];
  return element('div', {}, ...attempts.map((one, i) => attemptSection(one, i + 1, attempts.length)),
    attempts.length === 0 && test.reason ? element('p', {class: 'headline'}, test.reason) : null,
    test.file ? element('p', {class: 'note'}, `Defined at ${test.file}:${test.line}` + (test.backend ? `; backend ${test.backend}` : '')) : null,
    test.repeat_command ? command('Run it again:', test.repeat_command) : null);
}

const tests = data.tests.map((test, index) => ({...test, index, state: statusOf(test)}))
  .sort((a, b) => kStatuses[a.state].order - kStatuses[b.state].order || a.index - b.index);

const table = sortableTable([
  {name: 'Status', class: 'status', of: (test) => kStatuses[test.state].order,
    cell: (test) => element('span', {class: kStatuses[test.state].tone, title: kStatuses[test.state].title}, kStatuses[test.state].word)},
  {name: 'Test', class: 'id', of: nameOf, cell: (test) => element('a', {href: '#' + encodeURIComponent(nameOf(test)), 'aria-expanded': 'false'}, ...breakable(nameOf(test)))},
  {name: 'Ranks', class: 'number', title: 'Processes of the test', of: (test) => test.ranks.length, cell: (test) => String(test.ranks.length || '–')},
  {name: 'Time', class: 'number', title: 'Of all attempts', of: (test) => test.seconds, cell: (test) => (test.attempt === 0 ? '–' : duration(test.seconds))},
  {name: 'Why', class: 'reason', of: whyOf, cell: whyOf},
], tests, detailOf);

function whyOf(test) {
  if (test.state !== 'flaky') return test.reason;
  const [first] = test.earlier_attempts;
  return `passed at attempt ${test.attempt}; before: ${first ? first.reason : ''}`;
}

let status = 'all', words = '';
const search = element('input', {type: 'search', placeholder: 'Filter by name or reason', 'aria-label': 'Filter by name or reason', oninput: () => {
  words = search.value.toLowerCase();
  filter();
}});
const buttons = ['all', ...Object.keys(kStatuses)].map((name) => {
  const number = name === 'all' ? tests.length : tests.filter((test) => test.state === name).length;
  const word = name === 'all' ? 'All' : kStatuses[name].word;
  return {name, number, button: element('button', {type: 'button', 'data-filter': name, onclick: () => { status = name; filter(); }}, `${word} ${number}`)};
}).filter(({name, number}) => name === 'all' || number > 0);

function filter() {
  table.filter((test) => (status === 'all' || test.state === status)
    && words.split(' ').every((word) => `${nameOf(test)} ${kStatuses[test.state].word} ${whyOf(test)}`.toLowerCase().includes(word)));
  for (const {name, button} of buttons) button.setAttribute('aria-pressed', String(name === status));
}

document.querySelector('main').append(
  element('header', {}, element('h1', {class: tone()}, document.title.replace(/ – distrun test$/, '')), element('p', {class: 'facts'}, facts())),
  element('nav', {class: 'filters', 'aria-label': 'Filters'}, ...buttons.map(({button}) => button), search), table.table);
filter();

// Opens the test of the link, otherwise the first failure.
function openLinked() {
  const linked = tests.find((test) => '#' + encodeURIComponent(nameOf(test)) === location.hash);
  if (linked) table.open(linked, true).scrollIntoView();
  return linked;
}
window.addEventListener('hashchange', openLinked);
if (!openLinked()) {
  const first = tests.find((test) => ['failed', 'interrupted', 'flaky'].includes(test.state));
  if (first) table.open(first, true);
}
