import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { startProcess, type TestProcess, type TestRun } from '@weighbridge/testing';
import { type Absent, CHAT_PATH, type Contender, type StartedOther } from '../proxy/contender.ts';
import { pinned } from '../shared/service.ts';

const READY_TIMEOUT_MS = 90_000;
const POLL_MS = 100;
const VERSION_TIMEOUT_MS = 30_000;

/** The model under which peers know the vendor's. */
export const PEER_MODEL = 'gpt-4o-mini';

/** A program, given by a setting or found on the PATH. Throws with what to do. */
export async function findBinary(setting: string, name: string): Promise<{ path: string; version: string }> {
  const { env } = process;
  const candidates = env[setting]
    ? [env[setting]]
    : (env.PATH ?? '').split(delimiter).map((folder) => join(folder, name));
  for (const path of candidates) {
    const output = await promisify(execFile)(path, ['--version'], { timeout: VERSION_TIMEOUT_MS }).then(
      ({ stdout }) => stdout,
      () => undefined,
    );
    if (output === undefined) continue;
    const version = versionOf(output);
    return { path, version: version === UNNAMED ? ((await goModuleVersion(path)) ?? version) : version };
  }
  throw new Error(
    env[setting] ? `${setting}=${env[setting]} does not run` : `no ${name} on the PATH: set ${setting} to it`,
  );
}

/** What a program says that was built without being told its version. */
const UNNAMED = 'dev';

/**
 * The version of the main module of a Go program, which the compiler writes into it
 * (https://pkg.go.dev/runtime/debug#BuildInfo); of one that has none, the revision.
 */
async function goModuleVersion(path: string): Promise<string | undefined> {
  const program = await readFile(path, 'latin1').catch(() => '');
  const [, version] = /\nmod\t[^\t\n]+\tv?([^\t\n]+)/.exec(program) ?? [];
  if (version !== undefined && version !== '(devel)') return version;
  return /\nbuild\tvcs\.revision=([0-9a-f]{7})/.exec(program)?.[1];
}

/** The second word, as in `busbar 1.5.5 — …` and `gomodel dev (…)`. */
function versionOf(output: string): string {
  return /^\S+\s+v?(\S+)/.exec(output)?.[1] ?? 'of an unknown version';
}

export interface PeerCommand {
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly port: number;
  readonly core: number | undefined;
}

/** Starts a peer on its core, and waits until it accepts connections on its port. */
export async function startPeer(
  run: TestRun,
  { command, env, cwd, port, core }: PeerCommand,
): Promise<TestProcess> {
  const [program = '', ...args] = pinned(core, command);
  const started = await startProcess({ command: program, args, env, cwd }, run);
  const deadline = performance.now() + READY_TIMEOUT_MS;
  let hasEnded = false;
  started.ended.then(() => {
    hasEnded = true;
  });
  while (!(await accepts(port))) {
    if (hasEnded || performance.now() > deadline) {
      if (!hasEnded) await started.stop('SIGKILL');
      throw new Error(`it does not accept connections: ${started.output().trim().slice(-500)}`);
    }
    await sleep(POLL_MS);
  }
  return started;
}

async function accepts(port: number): Promise<boolean> {
  return await new Promise((resolve) => {
    const socket = connect({ host: '127.0.0.1', port });
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}

type PeerContender = Pick<Contender, 'name' | 'model' | 'tokens' | 'isGoverned' | 'howRun'> & {
  readonly port: number;
};

export function startedPeer(process: TestProcess, { port, ...more }: PeerContender): StartedOther {
  return {
    process,
    contender: {
      url: `http://127.0.0.1:${port}`,
      path: CHAT_PATH,
      headers: {},
      expects: 'mark',
      groups: ['plain', 'small', 'streamed'],
      pid: process.pid,
      runsOn: undefined,
      isOurs: false,
      mayBeStopped: true,
      ...more,
    },
  };
}

/** Calls a peer's own operator API; throws unless it answers with a 2xx. */
export async function callPeer(
  url: string,
  token: string,
  body: object,
): Promise<Readonly<Record<string, unknown>>> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`${url}: ${response.status} ${await response.text()}`);
  return (await response.json()) as Record<string, unknown>;
}

/** The peer, or why it can't take part. */
export async function orAbsent(
  name: string,
  start: () => Promise<StartedOther>,
): Promise<StartedOther | Absent> {
  try {
    return await start();
  } catch (error) {
    const [reason = ''] = String(error).split('\n');
    return { name, reason };
  }
}
