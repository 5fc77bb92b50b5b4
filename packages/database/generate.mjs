// Writes src/tables.ts from the migrated schema of a throw-away Postgres. Run it by `pnpm generate`.
import { execFileSync } from 'node:child_process';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startLocalPostgres } from '@weighbridge/local-postgres';
import { migrateToLatest } from './dist/index.js';

const folder = await mkdtemp(join(tmpdir(), 'weighbridge-generate-'));
await chmod(folder, 0o711);
const postgres = await startLocalPostgres({ dataDir: join(folder, 'postgres'), settings: { fsync: 'off' } });
try {
  await migrateToLatest(postgres.url);
  const args = ['--config-file', '.kysely-codegenrc.json', '--url', postgres.url];
  execFileSync('kysely-codegen', args, { cwd: import.meta.dirname, stdio: 'inherit' });
} finally {
  await postgres.stop();
  await rm(folder, { recursive: true, force: true });
}
