// Loaded into an app's process first (`node --import`): lets a test break it at an exact point, without code for that in
// the product. A control file names the faults and is read again at each point; each fault is written to a log beside it
// before it happens, so that a kill is logged too.
import fs from 'node:fs';
import { createRequire, syncBuiltinESMExports } from 'node:module';

// biome-ignore lint/style/noProcessEnv: it is no part of the app, whose settings are read in one place.
const { FAULTS_FILE = '', FAULTS_CLOCK_OFFSET_MS = '0' } = process.env;
const real = {
  openSync: fs.openSync,
  closeSync: fs.closeSync,
  writeSync: fs.writeSync,
  readFileSync: fs.readFileSync,
};

let current = '';
/** How often each point was passed, or a fault happened there, since the control file last changed. */
let counts = {};

function faults() {
  let text = '{}';
  try {
    text = real.readFileSync(FAULTS_FILE, 'utf8');
  } catch {
    // No control file: no faults.
  }
  if (text !== current) {
    current = text;
    counts = {};
  }
  return JSON.parse(text);
}

function count(what) {
  counts[what] = (counts[what] ?? 0) + 1;
  return counts[what];
}

function fired(what) {
  const log = real.openSync(`${FAULTS_FILE}.log`, 'a');
  real.writeSync(log, `${what}\n`);
  real.closeSync(log);
}

function die(what) {
  fired(what);
  process.kill(process.pid, 'SIGKILL');
  // Block until the signal arrives, so that the product runs no further instruction.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
}

// The spool: `die: {at, when, nth}` around the writing of a record, `spoolWrite: code` for every write to it, and
// `spoolDelayMs` before each.
const RECORD_TYPES = { 1: 'HEADER', 2: 'INTENT', 3: 'SETTLE', 4: 'CONFIRM', 5: 'LEASE' };
const spoolFiles = new Set();

/** Records are a length (u32, of what follows the first eight bytes), a checksum (u32), a type (u8) and the rest. */
function recordsIn(bytes) {
  const records = [];
  for (let at = 0; at + 9 <= bytes.length; ) {
    const end = at + 8 + bytes.readUInt32LE(at);
    records.push({ type: RECORD_TYPES[bytes[at + 8]], at, end });
    at = end;
  }
  if (records[0]?.type !== 'HEADER') return records;
  // A new file begins with records written before: its header, and the copies counted here.
  return records.slice(1 + copiesIn(bytes));
}

/** A header is a version (u8), two texts, each after its length (u8), a number (u64), and this number (u32). */
function copiesIn(bytes) {
  let at = 10;
  for (let text = 0; text < 2; text++) at += 1 + bytes[at];
  return bytes.readUInt32LE(at + 8);
}

fs.openSync = (path, ...rest) => {
  const fd = real.openSync(path, ...rest);
  if (String(path).endsWith('.spool')) spoolFiles.add(fd);
  return fd;
};
fs.closeSync = (fd) => {
  spoolFiles.delete(fd);
  real.closeSync(fd);
};
fs.writeSync = (fd, data, ...rest) => {
  if (!spoolFiles.has(fd)) return real.writeSync(fd, data, ...rest);
  const [from = 0, length = data.length - from, position = null] = rest;
  const write = (bytes) => real.writeSync(fd, data, from, bytes, position);
  const { die: point, spoolWrite, spoolDelayMs } = faults();
  // As the system's call does, it holds the thread.
  if (spoolDelayMs) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, spoolDelayMs);
  const records = recordsIn(data.subarray(from, from + length));
  if (spoolWrite) {
    for (const { type } of records) fired(`${spoolWrite} ${type}`);
    if (records.length === 0) fired(`${spoolWrite} HEADER`);
    throw Object.assign(new Error(`${spoolWrite}: injected, write`), { code: spoolWrite, syscall: 'write' });
  }
  const nth = point?.nth ?? 1;
  // One write has all records of a turn of the event loop.
  const due = records.find(({ type }) => point?.at === type && count('die') === nth);
  if (!due) return write(length);
  if (point.when === 'within') write((due.at + due.end) >> 1);
  if (point.when === 'after') write(length);
  die(`killed ${point.when} ${point.at}`);
};
syncBuiltinESMExports();

// Postgres: `commit: {how, times}` for transactions that wrote to the ledger.
const pg = await databaseClient();
if (pg) {
  const query = pg.Client.prototype.query;
  const writers = new WeakSet();
  pg.Client.prototype.query = function (...args) {
    const text = String(args[0]?.text ?? args[0]);
    if (/insert into "?usage_events"?/i.test(text)) writers.add(this);
    if (!/^commit$/i.test(text) || !writers.delete(this)) return query.apply(this, args);
    const { commit } = faults();
    if (!commit || count('commit') > commit.times) return query.apply(this, args);
    return breakCommit(this, commit.how, () => query.apply(this, args));
  };
}

async function breakCommit(client, how, commit) {
  if (how === 'never sent') {
    fired(`COMMIT ${how}`);
    client.connection.stream.destroy();
    return await commit();
  }
  await commit();
  if (how === 'killed after') die(`COMMIT ${how}`);
  fired(`COMMIT ${how}`);
  client.connection.stream.destroy();
  throw new Error('Connection terminated unexpectedly');
}

async function databaseClient() {
  const database = new URL('../../../../packages/database/package.json', import.meta.url);
  return createRequire(database)('pg');
}

// The clock: `clockOffsetMs`, if the process was started with an offset.
let offsetMs = Number(FAULTS_CLOCK_OFFSET_MS);
if (offsetMs !== 0) {
  const RealDate = Date;
  const now = () => RealDate.now() + offsetMs;
  globalThis.Date = new Proxy(RealDate, {
    construct: (target, args, made) => Reflect.construct(target, args.length === 0 ? [now()] : args, made),
    get: (target, name) => (name === 'now' ? now : Reflect.get(target, name)),
  });
  let seen;
  setInterval(() => {
    offsetMs = faults().clockOffsetMs ?? offsetMs;
    if (seen === current) return;
    seen = current;
    fs.writeFileSync(`${FAULTS_FILE}.seen`, seen);
  }, 20).unref();
}
