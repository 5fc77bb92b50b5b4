import { constants } from 'node:fs';
import { open, realpath } from 'node:fs/promises';
import { normalize, sep } from 'node:path';
import { AppError } from '@weighbridge/errors';
import type { Sealer } from '../../sealing/envelope.ts';

/** A vendor's credential, or why it can't be had; the reason never holds any of it. */
export type Credential = { readonly value: string } | { readonly unusable: string };

/** Where the credentials of connectors come from. */
export interface Credentials {
  readonly sealer: Sealer;
  /** What a reference names now. */
  read(ref: string): Promise<Credential>;
  /** 422 for a reference that could never be read. */
  checkRef(ref: string): void;
}

export interface CredentialSources {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The only folders whose files a reference may name. */
  readonly fileDirs: readonly string[];
  readonly sealer: Sealer;
}

const MAX_CREDENTIAL = 8_192;
const ENV_REF = /^env:([A-Za-z_][A-Za-z0-9_]{0,127})$/;
const FILE_REF = /^file:(\/[^\0]{1,1000})$/;
/** The service's own secrets: a reference to one would send it to an upstream. */
const OWN_SETTINGS =
  /^(WEIGHBRIDGE_.*|DATABASE_URL|NATS_URL|CONTROL_PLANE_TOKEN|STATE_KEY|RESPONSE_CACHE_KEY|PG.*)$/i;

export function createCredentials({ env, fileDirs, sealer }: CredentialSources): Credentials {
  return {
    sealer,
    checkRef(ref) {
      const why = refFault(ref, fileDirs);
      if (why === undefined) return;
      throw new AppError(
        'validation',
        'credential_ref_invalid',
        `This credential_ref can't be used: ${why}.`,
        {
          param: 'credential_ref',
        },
      );
    },
    async read(ref) {
      const why = refFault(ref, fileDirs);
      if (why !== undefined) return { unusable: `credential_ref can't be used: ${why}.` };
      const name = ENV_REF.exec(ref)?.[1];
      const text = name === undefined ? await readSecretFile(ref.slice('file:'.length), fileDirs) : env[name];
      if (!text)
        return { unusable: `${ref} names nothing here: the control plane finds no credential there.` };
      return isCredential(text) ? { value: text } : { unusable: `What ${ref} names is not a credential.` };
    },
  };
}

/** What can stand in a header as it is. */
export function isCredential(text: string): boolean {
  return text.length <= MAX_CREDENTIAL && /^[\x21-\x7e]+$/.test(text);
}

function refFault(ref: string, fileDirs: readonly string[]): string | undefined {
  const name = ENV_REF.exec(ref)?.[1];
  if (name !== undefined) {
    return OWN_SETTINGS.test(name) ? `${name} is a setting of the service itself` : undefined;
  }
  const path = FILE_REF.exec(ref)?.[1];
  if (path === undefined) return 'write env:NAME or file:/path';
  if (isInside(normalize(path), fileDirs)) return undefined;
  return `files are read only below ${fileDirs.join(', ') || 'no folder'} (the setting CREDENTIAL_FILE_DIRS)`;
}

/** Undefined where there is no such file, or nothing that could be a credential. */
async function readSecretFile(path: string, fileDirs: readonly string[]): Promise<string | undefined> {
  try {
    // Links are followed only inside the folders: a mounted secret is a link to its newest version.
    const real = await realpath(path);
    const realDirs = await Promise.all(fileDirs.map((dir) => realpath(dir).catch(() => dir)));
    if (!isInside(real, realDirs)) return undefined;
    // Without waiting: opening a pipe would wait for its writer.
    const file = await open(real, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      if (!(await file.stat()).isFile()) return undefined;
      const { bytesRead, buffer } = await file.read(
        Buffer.alloc(MAX_CREDENTIAL + 2),
        0,
        MAX_CREDENTIAL + 2,
        0,
      );
      return buffer.toString('utf8', 0, bytesRead).trim();
    } finally {
      await file.close();
    }
  } catch {
    return undefined;
  }
}

function isInside(path: string, dirs: readonly string[]): boolean {
  return dirs.some((dir) => path.startsWith(dir.endsWith(sep) ? dir : dir + sep));
}
