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
 * The paths in the data folder: the cluster (Postgres' own folder), and beside it files that only its owner reads. `drafts` is
 * the prefix of a cluster that is being created; it is renamed when it is complete.
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

/** Creates the data folder if it is missing, in a real place that the account can reach. */
export function openFolder(account: Account, dataDir: string): Folder {
  const path = resolve(dataDir);
  const link = lstatSync(path, { throwIfNoEntry: false });
  if (link?.isSymbolicLink() && !existsSync(path)) {
    throw new LocalPostgresError(
      `${path} is a link to ${readlinkSync(path)}, which is missing: restore it, or remove the link to start with an empty database`,
    );
  }
  if (existsSync(path) && !readdirOrUndefined(path)) {
    throw new LocalPostgresError(
      `${path} is not a readable folder. Postgres stores its data there: choose another one, or change its permissions`,
    );
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

/** As root: in place if `nobody` can reach it, else in a system folder, with a link to it. */
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
      `the user nobody, who runs Postgres if root starts it, cannot reach ${path}: allow it to pass the folders above (chmod o+x), or start as the ordinary user who owns it`,
    );
  }
}

function linkToSystemFolder(path: string): void {
  const target = systemFolder('data', randomUUID());
  chmodSync(target, 0o711);
  // Names the link, in case it is deleted: nothing else refers to this folder.
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
