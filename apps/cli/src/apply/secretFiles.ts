import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { access, lstat, mkdir, open, rename, unlink } from 'node:fs/promises';
import { basename, dirname, isAbsolute, join, normalize, resolve } from 'node:path';
import { keyHint } from '@weighbridge/domain';
import { parse, stringify } from 'yaml';
import type { Json } from './desiredState.ts';

/** Where the secret of a key goes: into a file by itself, or into a manifest of a Kubernetes Secret. */
export interface SecretTarget {
  readonly path: string;
  readonly manifest?: { readonly name: string; readonly namespace?: string; readonly key?: string };
}

const SECRET_MODE = 0o600;
const FOLDER_MODE = 0o700;
const WRITABLE_BY_ALL = 0o002;
const WRITABLE_BY_OWNER = 0o200;
const MAX_BYTES = 64 * 1024;
const DEFAULT_KEY = 'WEIGHBRIDGE_KEY';
const SECRET = /^sk-svc-[0-9A-Za-z]{49}$/;

/**
 * The target that a key of an apply file names; undefined if it names none. Throws if a relative path leads out of the folder: files
 * come from others, and only who writes a path out means it.
 */
export function targetOf({ secret_file, kubernetes_secret }: Json): SecretTarget | undefined {
  if (typeof secret_file !== 'string') return undefined;
  if (secret_file.includes('\0')) throw new Error('it has a character that no path can have');
  if (!isAbsolute(secret_file) && normalize(secret_file).split(/[\\/]/)[0] === '..')
    throw new Error(
      `${secret_file} leads out of the folder where apply runs: give a path below it, or an absolute one`,
    );
  const manifest = kubernetes_secret as SecretTarget['manifest'];
  return { path: resolve(secret_file), ...(manifest && { manifest }) };
}

/** What a file has: nothing, since it is missing, the hint of the secret in it, or something that is not of a key. */
export type Held = 'nothing' | 'something else' | { readonly hint: string };

/**
 * Reads what is at a target. Throws if a secret can't be kept there: a link, a file or folder of another user, a folder that
 * everyone can write to.
 */
export async function heldAt(target: SecretTarget): Promise<Held> {
  const { path } = target;
  if (!(await assertOwnFolder(dirname(path)))) return 'nothing';
  const found = await lstat(path).catch(orMissing);
  if (!found) return 'nothing';
  if (!found.isFile() || found.nlink > 1)
    throw new Error(`${path} is a link, or not a file: a secret is not written there`);
  if (!isOwn(found.uid)) throw new Error(`${path} belongs to another user`);
  if (found.size > MAX_BYTES) return 'something else';
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW);
  try {
    const secret = secretIn(target, await file.readFile('utf8'));
    return secret === undefined ? 'something else' : { hint: keyHint(secret) };
  } finally {
    await file.close();
  }
}

/**
 * Writes a secret so that the file appears whole, and only its owner can read it. It replaces a file only if that has the
 * secret with this hint; otherwise it throws, also if a file appeared meanwhile.
 */
export async function writeSecret(
  target: SecretTarget,
  secret: string,
  replaces: string | undefined,
): Promise<void> {
  const folder = dirname(target.path);
  await mkdir(folder, { recursive: true, mode: FOLDER_MODE });
  const held = await heldAt(target);
  if (held !== 'nothing' && (held === 'something else' || held.hint !== replaces))
    throw new Error(`${target.path} exists and is not replaced`);
  const part = join(folder, `.${basename(target.path)}.${randomBytes(6).toString('hex')}.part`);
  const file = await open(part, 'wx', SECRET_MODE);
  try {
    await file.writeFile(contentOf(target, secret));
    await file.sync();
    await file.close();
    await rename(part, target.path);
  } finally {
    await file.close().catch(() => {});
    await unlink(part).catch(orMissing);
  }
  const opened = await open(folder, constants.O_RDONLY);
  await opened.sync().finally(() => opened.close());
}

/** False if the folder is missing: it is made when the secret is written. */
async function assertOwnFolder(folder: string): Promise<boolean> {
  const found = await lstat(folder).catch(orMissing);
  if (!found) {
    if (dirname(folder) !== folder) await assertOwnFolder(dirname(folder));
    return false;
  }
  if (!found.isDirectory())
    throw new Error(`${folder} is a link, or not a folder: no secret is written there`);
  if (!isOwn(found.uid)) throw new Error(`the folder ${folder} belongs to another user`);
  if ((found.mode & WRITABLE_BY_ALL) !== 0) throw new Error(`everyone can write to the folder ${folder}`);
  // Asked before a key is issued: a secret that can't be written is lost.
  const isWritable = (found.mode & WRITABLE_BY_OWNER) !== 0 && (await mayWrite(folder));
  if (!isWritable) throw new Error(`the folder ${folder} can't be written to`);
  return true;
}

/** Not on a file system that is read-only. */
async function mayWrite(folder: string): Promise<boolean> {
  return await access(folder, constants.W_OK).then(
    () => true,
    () => false,
  );
}

function isOwn(uid: number): boolean {
  return process.geteuid === undefined || uid === process.geteuid();
}

function contentOf({ manifest }: SecretTarget, secret: string): string {
  if (!manifest) return `${secret}\n`;
  const { name, namespace, key = DEFAULT_KEY } = manifest;
  return stringify({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name, ...(namespace !== undefined && { namespace }) },
    type: 'Opaque',
    stringData: { [key]: secret },
  });
}

function secretIn({ manifest }: SecretTarget, text: string): string | undefined {
  const secret = manifest ? secretOfManifest(manifest.key ?? DEFAULT_KEY, text) : text.trim();
  return typeof secret === 'string' && SECRET.test(secret) ? secret : undefined;
}

function secretOfManifest(key: string, text: string): unknown {
  try {
    const content = parse(text) as { kind?: unknown; stringData?: Json } | null;
    return content?.kind === 'Secret' ? content.stringData?.[key] : undefined;
  } catch {
    return undefined;
  }
}

function orMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code === 'ENOENT') return undefined;
  throw error;
}
