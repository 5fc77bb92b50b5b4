import { type ChildProcess, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { createServer, type Server } from 'node:net';
import { track, untrack } from './children.ts';
import { inheritedEnvironment } from './env.ts';
import { type TestRun, testRun } from './testRun.ts';

const OUTPUT_LIMIT = 1_000_000;
const KILL_TIMEOUT_MS = 60_000;
/** Ends what hangs. On a busy machine, a process starts and ends slowly. */
const TIMEOUT_MS = 120_000;

export interface ProcessOptions {
  readonly command: string;
  readonly args?: readonly string[];
  /** Its whole environment, except PATH and HOME, which it inherits unless they are given. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** `startProcess` resolves when the output of both streams matches. Default: at once. */
  readonly readyWhen?: RegExp | ((output: string) => boolean);
  /** Time-out for `readyWhen`. Default 2 minutes. */
  readonly timeoutMs?: number;
}

export interface ProcessEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface TestProcess {
  readonly pid: number;
  /** Resolves when the process has ended, for any reason. */
  readonly ended: Promise<ProcessEnd>;
  /** Its output so far, both streams interleaved. */
  output(): string;
  /** Resolves as soon as the output matches. Rejects on a time-out (default 2 minutes), or if the process ends before that. */
  waitFor(pattern: RegExp, timeoutMs?: number): Promise<RegExpExecArray>;
  /** Sends a signal and waits for the end. After `timeoutMs` (default 2 minutes), kills the process and rejects. */
  stop(signal?: NodeJS.Signals, timeoutMs?: number): Promise<ProcessEnd>;
}

/** Starts a process for a test. It is killed if it does not become ready, and at the latest when the test run ends. */
export async function startProcess(
  options: ProcessOptions,
  { folder: runFolder }: Pick<TestRun, 'folder'> = testRun(),
): Promise<TestProcess> {
  const { command, args = [], env, cwd, readyWhen, timeoutMs = TIMEOUT_MS } = options;
  const child = spawn(command, args, {
    env: { ...inheritedEnvironment(), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    ...(cwd !== undefined && { cwd }),
  });
  const pid = await spawned(child, command);
  try {
    track(runFolder, pid);
  } catch (error) {
    child.kill('SIGKILL');
    throw error;
  }
  const watched = watch(child, [command, ...args].join(' '), () => untrack(runFolder, pid));
  const process: TestProcess = {
    pid,
    ended: watched.ended,
    output: watched.output,
    waitFor: (pattern, patternTimeoutMs = TIMEOUT_MS) =>
      watched.until(
        (output) => pattern.exec(output) ?? undefined,
        `its output to match ${pattern}`,
        patternTimeoutMs,
      ),
    stop: (signal = 'SIGTERM', stopTimeoutMs = TIMEOUT_MS) => stop(child, watched, signal, stopTimeoutMs),
  };
  if (readyWhen === undefined) return process;
  try {
    const isReady = typeof readyWhen === 'function' ? readyWhen : (output: string) => readyWhen.test(output);
    await watched.until((output) => isReady(output) || undefined, 'it to be ready', timeoutMs);
    return process;
  } catch (error) {
    await stop(child, watched, 'SIGKILL', KILL_TIMEOUT_MS);
    throw error;
  }
}

/** Below the ports that systems give to outgoing connections and to servers on port 0. */
const PORTS = { first: 10_000, blocks: 350 };
/** A process of tests listens on the first port of a block for as long as it runs; the others are its own. */
const BLOCK = 64;
let nextPort = 0;
let lastPort = -1;

/**
 * Returns a TCP port of 127.0.0.1 that is free, and that nothing else is given before a process listens on it: neither by the
 * system nor by this function in another process of tests. So it may also be used again, after a restart.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    while (nextPort <= lastPort) {
      const port = nextPort++;
      if (await isFree(port)) return port;
    }
    await takeBlock();
  }
}

async function takeBlock(): Promise<void> {
  const first = randomInt(PORTS.blocks);
  for (let tries = 0; tries < PORTS.blocks; tries++) {
    const start = PORTS.first + ((first + tries) % PORTS.blocks) * BLOCK;
    const guard = await listenOn(start);
    if (!guard) continue;
    guard.unref();
    [nextPort, lastPort] = [start + 1, start + BLOCK - 1];
    return;
  }
  throw new Error(`No block of ports of 127.0.0.1 from ${PORTS.first} is free.`);
}

async function isFree(port: number): Promise<boolean> {
  const probe = await listenOn(port);
  if (probe) await new Promise((resolve) => probe.close(resolve));
  return probe !== undefined;
}

/** Undefined if something else listens there. */
function listenOn(port: number): Promise<Server | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(undefined));
    server.listen(port, '127.0.0.1', () => resolve(server));
  });
}

function spawned(child: ChildProcess, command: string): Promise<number> {
  return new Promise((resolve, reject) => {
    child.once('error', (cause) =>
      reject(new Error(`${command} can't be started: ${cause.message}`, { cause })),
    );
    child.once('spawn', () => resolve(child.pid ?? 0));
  });
}

type Watched = ReturnType<typeof watch>;

/** Collects the output and resolves waits for parts of it. */
function watch(child: ChildProcess, title: string, onEnd: () => void) {
  let output = '';
  let end: ProcessEnd | undefined;
  const waiting = new Set<() => void>();
  const wake = () => {
    for (const check of [...waiting]) check();
  };
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (text: string) => {
      output = (output + text).slice(-OUTPUT_LIMIT);
      wake();
    });
  }
  const ended = new Promise<ProcessEnd>((resolve) => {
    // `exit` alone is too early, since output may follow. `close` alone may never come: a grandchild can hold the streams open.
    child.once('exit', (code, signal) => {
      const finish = () => {
        clearTimeout(timer);
        end ??= { code, signal };
        resolve(end);
        onEnd();
        wake();
      };
      const timer = setTimeout(finish, 250);
      child.once('close', finish);
    });
  });

  function until<T>(find: (output: string) => T | undefined, what: string, timeoutMs: number): Promise<T> {
    return new Promise((resolve, reject) => {
      const settle = (action: () => void) => {
        clearTimeout(timer);
        waiting.delete(check);
        action();
      };
      const fail = (why: string) =>
        settle(() =>
          reject(new Error(`Waited for ${what}, but ${why}.\n$ ${title}\n${output || '(no output)'}`)),
        );
      const check = () => {
        const found = find(output);
        if (found !== undefined) settle(() => resolve(found));
        else if (end) fail(`it ended (${describeEnd(end)})`);
      };
      const timer = setTimeout(() => fail(`not within ${timeoutMs} ms`), timeoutMs);
      waiting.add(check);
      check();
    });
  }
  return { title, ended, output: () => output, until, hasEnded: () => end !== undefined };
}

async function stop(child: ChildProcess, watched: Watched, signal: NodeJS.Signals, timeoutMs: number) {
  if (watched.hasEnded()) return watched.ended;
  child.kill(signal);
  let timedOut = false;
  const timer = setTimeout(() => {
    timedOut = true;
    child.kill('SIGKILL');
  }, timeoutMs);
  const end = await watched.ended;
  clearTimeout(timer);
  if (timedOut) {
    const output = watched.output() || '(no output)';
    throw new Error(
      `Did not end within ${timeoutMs} ms of ${signal}: killed.\n$ ${watched.title}\n${output}`,
    );
  }
  return end;
}

function describeEnd({ code, signal }: ProcessEnd): string {
  return signal ? `signal ${signal}` : `exit code ${code}`;
}
