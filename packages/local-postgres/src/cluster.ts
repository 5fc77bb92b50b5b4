import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { appendFile, chown, mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { type Account, runTool } from './account.ts';
import type { Binaries } from './binaries.ts';
import { LocalPostgresError, tail } from './errors.ts';
import type { Folder } from './folder.ts';

/** The superuser of every cluster created here. */
export const SUPERUSER = 'weighbridge';

export interface ClusterOptions {
  readonly account: Account;
  readonly binaries: Binaries;
  readonly folder: Folder;
  readonly database: string;
  /** Leaves syncing to the operating system: for disposable data. */
  readonly unsafe: boolean;
}

/** Creates the cluster and the database if they are missing. No server may be running on the cluster. */
export async function prepareCluster(
  options: ClusterOptions,
): Promise<{ firstStart: boolean; password: string }> {
  const { folder, database } = options;
  if (!/^[a-z_][a-z0-9_]{0,62}$/.test(database)) {
    throw new LocalPostgresError(
      `"${database}" cannot be a database's name: use lower-case letters, digits and _`,
    );
  }
  const firstStart = !existsSync(folder.cluster);
  if (firstStart) await createCluster(options);
  else await assertIntact(options);

  const password = await readFile(folder.password, 'utf8');
  const known = (await readFile(folder.databases, 'utf8').catch(() => '')).split('\n');
  if (!known.includes(database)) {
    await createDatabase(options, folder.cluster);
    await appendFile(folder.databases, `${database}\n`, { mode: 0o600 });
  }
  return { firstStart, password };
}

/** Runs initdb in a draft folder and renames it at the end, so that an interruption leaves no incomplete cluster. */
async function createCluster(options: ClusterOptions): Promise<void> {
  const { account, folder, database } = options;
  await assertOurs(folder);
  await removeDrafts(folder);

  // Written first, so that every cluster has its password.
  const password = randomBytes(24).toString('hex');
  await writeFile(folder.password, password, { mode: 0o600, flush: true });
  await writeFile(folder.databases, `${database}\n`, { mode: 0o600, flush: true });

  const draft = folder.drafts + randomBytes(6).toString('hex');
  await mkdir(draft, { mode: 0o700 });
  const passwordForInitdb = `${draft}.password`;
  await writeFile(passwordForInitdb, password, { mode: 0o600 });
  if (account.switched) {
    await chown(draft, account.uid, account.gid);
    await chown(passwordForInitdb, account.uid, account.gid);
  }
  try {
    await initdb(options, draft, passwordForInitdb);
    await createDatabase(options, draft);
    await rename(draft, folder.cluster);
  } finally {
    await removeDrafts(folder);
  }
}

async function initdb({ account, binaries, folder, unsafe }: ClusterOptions, draft: string, pwfile: string) {
  const { code, output } = await runTool(account, binaries.initdb, [
    `--pgdata=${draft}`,
    `--username=${SUPERUSER}`,
    `--pwfile=${pwfile}`,
    '--auth=scram-sha-256',
    '--encoding=UTF8',
    '--locale=C',
    '--locale-provider=builtin',
    '--builtin-locale=C.UTF-8',
    '--no-instructions',
    ...(unsafe ? ['--no-sync'] : []),
  ]);
  if (code !== 0) throw new LocalPostgresError(`initdb failed in ${folder.path}:${tail(output)}`);
}

/** In single-user mode, without a server, a port or a password. An existing database is fine. */
async function createDatabase({ account, binaries, database, unsafe }: ClusterOptions, cluster: string) {
  const args = ['--single', '-D', cluster, '-c', 'log_line_prefix=%e ', '-c', 'log_checkpoints=off'];
  if (unsafe) args.push('-F');
  const { code, output } = await runTool(
    account,
    binaries.postgres,
    [...args, 'template1'],
    [`CREATE DATABASE "${database}"`, ''].join('\n'),
  );
  const failures = [...output.matchAll(/^(?:backend> )?(\w{5}) (?:ERROR|FATAL|PANIC):/gm)];
  const duplicateDatabase = '42P04';
  if (code !== 0 || failures.some(([, state]) => state !== duplicateDatabase)) {
    throw new LocalPostgresError(
      `the database ${database} could not be created in ${cluster}:${tail(output)}`,
    );
  }
}

/** Throws if a folder without a cluster contains other files. */
async function assertOurs(folder: Folder): Promise<void> {
  const ours = [folder.password, folder.databases, folder.log, folder.previousLog].map((path) =>
    basename(path),
  );
  const allowed = [...ours, 'linked-from', 'lost+found'];
  const foreign = (await readdir(folder.path)).filter(
    (name) => !allowed.includes(name) && !name.startsWith(basename(folder.drafts)),
  );
  if (foreign.length > 0) {
    throw new LocalPostgresError(
      `${folder.path} holds something else than a Weighbridge database (${foreign.slice(0, 3).join(', ')}): choose an empty or new folder`,
    );
  }
}

/** Throws for problems that Postgres would report later and less clearly. Reads only. */
async function assertIntact({ account, binaries, folder }: ClusterOptions): Promise<void> {
  const { uid } = await stat(folder.cluster);
  if (uid !== account.uid) {
    throw new LocalPostgresError(
      `${folder.cluster} belongs to user id ${uid}, but Postgres would run as ${account.uid}: start as the user who started it the first time`,
    );
  }
  const version = await readFile(join(folder.cluster, 'PG_VERSION'), 'utf8').catch(() => undefined);
  if (version === undefined || !existsSync(join(folder.cluster, 'global/pg_control'))) {
    throw broken(folder, `no ${version === undefined ? 'PG_VERSION' : 'global/pg_control'}`);
  }
  if (version.trim() !== binaries.major) {
    throw new LocalPostgresError(
      `${folder.cluster} was made by Postgres ${version.trim()}, and this is Postgres ${binaries.major}: dump it with the old version and restore it, or move the folder away to start with an empty database`,
    );
  }
  if (!existsSync(folder.password)) throw broken(folder, `no password file ${folder.password}`);
}

function broken(folder: Folder, what: string): LocalPostgresError {
  return new LocalPostgresError(
    `the database in ${folder.cluster} is broken: ${what}. Restore the folder from a backup, or move it away to start with an empty database`,
  );
}

async function removeDrafts(folder: Folder): Promise<void> {
  for (const name of await readdir(folder.path)) {
    if (!name.startsWith(basename(folder.drafts))) continue;
    // Retries, since an initdb whose owner was killed may still write for a moment.
    await rm(join(folder.path, name), { recursive: true, force: true, maxRetries: 5 });
  }
}
