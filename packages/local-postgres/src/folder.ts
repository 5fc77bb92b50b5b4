import { randomUUID } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readlinkSync,
  realpathSync,
  rmdirSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { type Account, canReach, systemFolder } from './account.ts';
import { LocalPostgresError } from './errors.ts';

/**
 * The data folder, and what is in it: the cluster (Postgres' own folder) and, beside it, what only its owner reads.
 * `drafts` is the prefix of a cluster in the making: it is renamed when it is whole, so a half-done one is no cluster.
 */
export interface Folder {
  readonly path: string;
  readonly cluster: string;
  readonly drafts: string;
  readonly password: string;
  readonly databases: string;
  readonly log: string;
  readonly previousLog: string;
}

/** Makes the data folder if it is missing, and finds the real place in which the account can keep a cluster. */
export function openFolder(account: Account, dataDir: string): Folder {
  const path = resolve(dataDir);
  const link = lstatSync(path, { throwIfNoEntry: false });
  if (link?.isSymbolicLink() && !existsSync(path)) {
    throw new LocalPostgresError(
      `${path} is a link to ${readlinkSync(path)}, which is gone: bring it back, or remove the link to begin with an empty database`,
    );
  }
  if (existsSync(path) && !readdirOrUndefined(path)) {
    throw new LocalPostgresError(`${path} is not a folder that can be read: Postgres keeps its data there`);
  }
  if (account.switched) makeReachable(account, path);
  else mkdirSync(path, { recursive: true, mode: 0o700 });
  return layout(realpathSync(path));
}

function layout(path: string): Folder {
  return {
    path,
    cluster: join(path, 'cluster'),
    drafts: join(path, 'cluster.new-'),
    password: join(path, 'password'),
    databases: join(path, 'databases'),
    log: join(path, 'server.log'),
    previousLog: join(path, 'server.log.1'),
  };
}

/** As root: in place if `nobody` can get there, else a folder of the system's with a link to it. */
function makeReachable(account: Account, path: string): void {
  const isNew = (readdirOrUndefined(path) ?? []).length === 0;
  if (isNew) {
    mkdirSync(dirname(path), { recursive: true });
    if (canReach(account, existsSync(path) ? dirname(realpathSync(path)) : dirname(path))) {
      mkdirSync(path, { recursive: true });
      chmodSync(path, 0o711);
      return;
    }
    if (!lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink()) linkToSystemFolder(path);
  }
  if (!canReach(account, path)) {
    throw new LocalPostgresError(
      `${path} can't be reached by the user nobody, as whom Postgres runs when root starts it: make the folders above it passable (chmod o+x), or start as the ordinary user who owns it`,
    );
  }
}

function linkToSystemFolder(path: string): void {
  const target = systemFolder('data', randomUUID());
  chmodSync(target, 0o711);
  // For whoever finds it after the link was deleted: nothing else refers to it then.
  writeFileSync(join(target, 'linked-from'), `${path}\n`, { mode: 0o600 });
  if (existsSync(path)) rmdirSync(path);
  symlinkSync(target, path);
}

function readdirOrUndefined(path: string): string[] | undefined {
  try {
    return readdirSync(path);
  } catch {
    return undefined;
  }
}
