import { type ChildProcess, spawn } from 'node:child_process';
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually, freePort } from '@weighbridge/testing';
import { findBinaries } from './binaries.ts';

export interface ApiAnswer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: any object of Kubernetes.
  readonly body: any;
  /** What the server says of an object that it accepts. */
  readonly warnings: readonly string[];
}

/** A real API server with its etcd, and no controllers: what is applied is admitted and stored, and no pod appears. */
export interface ApiServer {
  readonly kubeconfig: string;
  call(method: string, path: string, body?: unknown, type?: string): Promise<ApiAnswer>;
  close(): Promise<void>;
}

const READY_TIMEOUT_MS = 120_000;
const LOOPBACK = '127.0.0.1';

export async function startApiServer(): Promise<ApiServer> {
  const { etcd, apiServer } = await findBinaries();
  const folder = await mkdtemp(join(tmpdir(), 'weighbridge-cluster-'));
  const running: ChildProcess[] = [];
  const close = async () => {
    for (const one of running.splice(0).reverse()) await end(one);
    await rm(folder, { recursive: true, force: true, maxRetries: 10 });
  };
  const start = (name: string, command: string, args: readonly string[]) => {
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    const log = createWriteStream(join(folder, `${name}.log`));
    child.stdout?.pipe(log);
    child.stderr?.pipe(log);
    running.push(child);
    return child;
  };
  try {
    const store = `http://${LOOPBACK}:${await freePort()}`;
    start('etcd', etcd, etcdArguments(folder, store, `http://${LOOPBACK}:${await freePort()}`));
    const [port, token] = [await freePort(), randomBytes(16).toString('hex')];
    await writeFile(join(folder, 'tokens.csv'), `${token},admin,admin,system:masters\n`, { mode: 0o600 });
    const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    const pem = privateKey.export({ type: 'pkcs1', format: 'pem' });
    await writeFile(join(folder, 'accounts.key'), pem, { mode: 0o600 });
    const server = start('kube-apiserver', apiServer, apiServerArguments(folder, store, port));
    const certificate = join(folder, 'certs', 'apiserver.crt');
    const call: ApiServer['call'] = async (method, path, body, type = 'application/json') =>
      await ask({ port, token, ca: await readFile(certificate), method, path, body, type });
    await eventually(
      async () => {
        if (server.exitCode !== null)
          throw new Error(await readFile(join(folder, 'kube-apiserver.log'), 'utf8'));
        const { status, body } = await call('GET', '/readyz');
        if (status !== 200) throw new Error(`the API server is not ready: ${JSON.stringify(body)}`);
      },
      { timeoutMs: READY_TIMEOUT_MS },
    );
    const kubeconfig = join(folder, 'kubeconfig');
    await writeFile(kubeconfig, kubeconfigOf(port, token, certificate), { mode: 0o600 });
    return { kubeconfig, call, close };
  } catch (error) {
    await close();
    throw error;
  }
}

function etcdArguments(folder: string, client: string, peer: string): string[] {
  return [
    ...['--data-dir', join(folder, 'etcd')],
    ...['--listen-client-urls', client, '--advertise-client-urls', client],
    ...['--listen-peer-urls', peer, '--initial-advertise-peer-urls', peer],
    ...['--initial-cluster', `default=${peer}`],
  ];
}

function apiServerArguments(folder: string, store: string, port: number): string[] {
  const key = join(folder, 'accounts.key');
  return [
    ...['--etcd-servers', store, '--endpoint-reconciler-type', 'none'],
    ...['--bind-address', LOOPBACK, '--advertise-address', LOOPBACK, '--secure-port', String(port)],
    ...['--cert-dir', join(folder, 'certs'), '--token-auth-file', join(folder, 'tokens.csv')],
    ...['--service-account-issuer', 'https://kubernetes.default.svc', '--service-account-key-file', key],
    ...['--service-account-signing-key-file', key, '--authorization-mode', 'RBAC'],
    ...['--service-cluster-ip-range', '10.96.0.0/16,fd00:10:96::/112'],
  ];
}

function kubeconfigOf(port: number, token: string, certificate: string): string {
  const server = `https://${LOOPBACK}:${port}`;
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'test', cluster: { server, 'certificate-authority': certificate } }],
    users: [{ name: 'admin', user: { token } }],
    contexts: [{ name: 'test', context: { cluster: 'test', user: 'admin' } }],
    'current-context': 'test',
  });
}

interface Call {
  readonly port: number;
  readonly token: string;
  readonly ca: Buffer;
  readonly method: string;
  readonly path: string;
  readonly body: unknown;
  readonly type: string;
}

async function ask({ port, token, ca, method, path, body, type }: Call): Promise<ApiAnswer> {
  const headers = { authorization: `Bearer ${token}`, ...(body !== undefined && { 'content-type': type }) };
  const asking = request({ host: LOOPBACK, port, method, path, headers, ca, timeout: 30_000 });
  asking.on('timeout', () => asking.destroy(new Error(`${method} ${path}: no answer`)));
  asking.end(body === undefined ? undefined : JSON.stringify(body));
  const [response] = await once(asking, 'response');
  let text = '';
  for await (const piece of response.setEncoding('utf8')) text += piece;
  // 299 - "text"
  const warnings = [...String(response.headers.warning ?? '').matchAll(/299 \S+ "((?:[^"\\]|\\.)*)"/g)];
  return {
    status: response.statusCode ?? 0,
    body: text.startsWith('{') ? JSON.parse(text) : text,
    warnings: warnings.map(([, said = '']) => said),
  };
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}
