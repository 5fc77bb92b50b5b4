import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type FolderLock, lockFolder } from './folderLock.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'lock-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

async function taken(path: string): Promise<FolderLock> {
  const lock = await lockFolder(path, 'the first');
  if ('heldBy' in lock) throw new Error(`held by ${lock.heldBy}`);
  return lock;
}

/** Leaves the socket of a process that was killed while it listened. */
function leaveSocket(path: string): void {
  const listen = `require('net').createServer().listen(${JSON.stringify(path)}, () => process.kill(process.pid, 'SIGKILL'))`;
  expect(() => execFileSync(process.execPath, ['-e', listen], { stdio: 'ignore' })).toThrow();
}

describe('a lock of a folder', () => {
  it.each(['short', 'long-'.repeat(30)])(
    'has one holder at a time, and the next one after its release (%s)',
    async (name) => {
      const path = join(folder, name);
      mkdirSync(path);
      const lock = await taken(path);
      expect(await lockFolder(path, 'the second')).toEqual({ heldBy: 'the first' });
      await lock.release();
      await (await taken(path)).release();
    },
  );

  it('passes from a killed process to one of those that try to lock', async () => {
    leaveSocket(join(folder, 'lock'));
    const locks = await Promise.allSettled(Array.from({ length: 5 }, () => lockFolder(folder, 'me')));
    const held = locks.flatMap((lock) =>
      lock.status === 'fulfilled' && 'release' in lock.value ? [lock.value] : [],
    );
    expect(held).toHaveLength(1);
    await held[0]?.release();
  });

  it('passes to the next one, although a child that its holder was starting kept the socket a moment longer', async () => {
    if (process.platform !== 'linux')
      throw new Error('This test needs Linux, where the lock has a name without a file.');
    const name = `\0weighbridge-${createHash('sha256').update(realpathSync(folder)).digest('hex').slice(0, 32)}`;
    const kept = createServer((socket) => {
      kept.close();
      socket.destroy();
    });
    await new Promise<void>((resolve) => kept.listen({ path: name }, resolve));
    await (await taken(folder)).release();
    expect(kept.listening).toBe(false);
  });

  it('reports a missing folder', async () => {
    await expect(lockFolder(join(folder, 'missing'), '')).rejects.toThrow('ENOENT');
  });
});
