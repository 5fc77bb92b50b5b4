import { execFile } from 'node:child_process';
import { access, chown, mkdir, realpath, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import pg from 'pg';

/** The continuous archive of a Postgres, from which it can be restored as it was at any moment after a backup. */
export interface Archive {
  /** Settings of a server that archives. */
  readonly settings: Readonly<Record<string, string>>;
  /** Copies the running server's files (https://www.postgresql.org/docs/current/continuous-archiving.html). */
  backUp(url: string): Promise<void>;
  /** Puts the last backup in the place of the stopped server's files; returns the settings for its start. */
  putBack(to: Date): Promise<Record<string, string>>;
  remove(): Promise<void>;
}

const run = promisify(execFile);

/** `dataDir` is that of a local Postgres that has run once. */
export async function openArchive(dataDir: string): Promise<Archive> {
  const folder = await realpath(dataDir);
  const cluster = join(folder, 'cluster');
  const { uid, gid } = await stat(cluster);
  const segments = join(folder, 'archive');
  const backup = join(folder, 'backup');
  await mkdir(segments, { mode: 0o700 });
  await chown(segments, uid, gid);
  /** For the user that Postgres runs as. */
  const writeOwned = async (path: string, text: string) => {
    await writeFile(path, text);
    await chown(path, uid, gid);
  };
  const settings = {
    wal_level: 'replica',
    archive_mode: 'on',
    archive_command: `test ! -f ${segments}/%f && cp %p ${segments}/%f`,
  };
  return {
    settings,
    async backUp(url) {
      const client = new pg.Client({ connectionString: url });
      await client.connect();
      try {
        await client.query("SELECT pg_backup_start('drill', true)");
        // Files may vanish meanwhile, which cp reports; the log makes up for them.
        await run('cp', ['-a', cluster, backup]).catch(() => {});
        const { rows } = await client.query<{ labelfile: string }>('SELECT labelfile FROM pg_backup_stop()');
        await writeOwned(join(backup, 'backup_label'), rows[0]?.labelfile ?? '');
        await access(join(backup, 'global', 'pg_control'));
      } finally {
        await client.end();
      }
      await run('sh', [
        '-c',
        `rm -rf "${backup}"/postmaster.* "${backup}"/pg_wal/* "${backup}"/pg_replslot/*`,
      ]);
    },
    async putBack(to) {
      await rename(cluster, `${cluster}.lost`);
      await run('cp', ['-a', backup, cluster]);
      await writeOwned(join(cluster, 'recovery.signal'), '');
      return {
        ...settings,
        restore_command: `cp ${segments}/%f %p`,
        recovery_target_time: to.toISOString().replace('T', ' ').replace('Z', '+00'),
        recovery_target_action: 'promote',
      };
    },
    async remove() {
      for (const gone of [segments, backup, `${cluster}.lost`])
        await rm(gone, { recursive: true, force: true });
    },
  };
}
