import { constants } from 'node:fs';
import { open, realpath } from 'node:fs/promises';
import { normalize, sep } from 'node:path';
import { AppError } from '@weighbridge/errors';
import type { Sealer } from '../../sealing/envelope.ts';
import type { CredentialHosts } from './credentialHosts.ts';

/** A vendor's credential, or the reason why it is unavailable. The reason contains no part of the credential. */
export type Credential = { readonly value: string } | { readonly unusable: string };

/** Reads the credentials of connectors. */
export interface Credentials {
  readonly sealer: Sealer;
  /** Reads the credential of a reference. Default: it must be one that can be sent in a header. */
  read(ref: string, isValid?: (text: string) => boolean): Promise<Credential>;
  /** Throws a 422 for a reference that can never be read. */
  assertValidRef(ref: string, field?: string): void;
  /** Which hosts the credentials of references may go to. */
  readonly hosts: CredentialHosts;
}

export interface CredentialSources {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** A reference may name files in these folders only. */
  readonly fileDirs: readonly string[];
  readonly sealer: Sealer;
  readonly hosts: CredentialHosts;
}

const MAX_CREDENTIAL = 8_192;
const ENV_REF = /^env:([A-Za-z_][A-Za-z0-9_]{0,127})$/;
const FILE_REF = /^file:(\/[^\0]{1,1000})$/;
/** Settings of the service itself: a reference to one would send it to an upstream. */
const OWN_SETTINGS =
  /^(WEIGHBRIDGE_.*|DATABASE_URL|NATS_URL|CONTROL_PLANE_TOKEN|STATE_KEY|RESPONSE_CACHE_KEY|PG.*)$/i;

export function createCredentials({ env, fileDirs, sealer, hosts }: CredentialSources): Credentials {
  return {
    sealer,
    hosts,
    assertValidRef(ref, field = 'credential_ref') {
      const why = refFault(ref, fileDirs);
      if (why === undefined) return;
      throw new AppError('validation', 'credential_ref_invalid', `This ${field} cannot be used: ${why}.`, {
        param: field,
      });
    },
    async read(ref, isValid = isCredential) {
      const why = refFault(ref, fileDirs);
      if (why !== undefined) return { unusable: `${ref} cannot be used: ${why}.` };
      const name = ENV_REF.exec(ref)?.[1];
      const text = name === undefined ? await readSecretFile(ref.slice('file:'.length), fileDirs) : env[name];
      if (!text) return { unusable: `The control plane finds no credential at ${ref}.` };
      return isValid(text) ? { value: text } : { unusable: `The value of ${ref} is not a valid credential.` };
    },
  };
}

/** Whether the text can be sent in a header. */
export function isCredential(text: string): boolean {
  return text.length <= MAX_CREDENTIAL && /^[\x21-\x7e]+$/.test(text);
}

/** Whether the text may be a document, such as the key of a service account. */
export function isJsonText(text: string): boolean {
  return text.length <= MAX_CREDENTIAL && text.startsWith('{');
}

function refFault(ref: string, fileDirs: readonly string[]): string | undefined {
  const name = ENV_REF.exec(ref)?.[1];
  if (name !== undefined) {
    return OWN_SETTINGS.test(name) ? `${name} is a setting of the service itself` : undefined;
  }
  const path = FILE_REF.exec(ref)?.[1];
  if (path === undefined) return 'it must be env:NAME or file:/path';
  if (isInside(normalize(path), fileDirs)) return undefined;
  return `files must be in ${fileDirs.join(', ') || 'no folder'} (the setting CREDENTIAL_FILE_DIRS)`;
}

/** Undefined if the file does not exist, is not a regular file or is outside the folders. */
async function readSecretFile(path: string, fileDirs: readonly string[]): Promise<string | undefined> {
  try {
    // A mounted secret is a link to its newest version, so links are followed, but only inside the folders.
    const real = await realpath(path);
    const realDirs = await Promise.all(fileDirs.map((dir) => realpath(dir).catch(() => dir)));
    if (!isInside(real, realDirs)) return undefined;
    // Non-blocking: opening a pipe would wait for a writer.
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
