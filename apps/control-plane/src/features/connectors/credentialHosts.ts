import { normalize } from 'node:path';
import { SettingsError } from '@weighbridge/runtime';
import { baseUrlOf } from './environmentConnectors.ts';
import { PROVIDERS } from './providers.ts';
import { type HostList, hostList } from './upstreamHosts.ts';

/** The hosts that a referenced credential may go to. */
export interface CredentialHosts {
  /** Whether the deployment limits the hosts of the reference. */
  isBound(ref: string): boolean;
  /** The hosts that the reference may go to; undefined: any. */
  hostsOf(ref: string): readonly string[] | undefined;
  /** Why the credential of the reference may not go to the host of the URL; undefined if it may. */
  fault(ref: string, baseUrl: string): string | undefined;
}

const SETTING = 'CREDENTIAL_REF_HOSTS';
const FORM = 'env:NAME=host,host;file:/path=host';

/**
 * Parses a list such as `env:GROQ_TEAM_KEY=api.groq.com;file:/run/secrets/gpu=gpu.internal:8000,*.models.local`. With it, a
 * reference that it lacks may go nowhere. A vendor's own variable that it lacks, or that stands without a list, may go to that
 * vendor only: `OPENAI_API_KEY` to `api.openai.com` and the host of `OPENAI_BASE_URL`. Throws a SettingsError that names an
 * invalid entry.
 */
export function credentialHosts(
  text: string | undefined,
  env: Readonly<Record<string, string | undefined>>,
): CredentialHosts {
  const isListed = text !== undefined && text.trim() !== '';
  const bound = new Map<string, HostList>(
    PROVIDERS.map((provider) => [`env:${provider.keyVariable}`, hostList(SETTING, ownHosts(provider, env))]),
  );
  for (const [ref, hosts] of entries(text ?? '')) bound.set(ref, hosts);
  return {
    isBound: (ref) => isListed || bound.has(canonical(ref)),
    hostsOf: (ref) => bound.get(canonical(ref))?.entries ?? (isListed ? [] : undefined),
    fault(ref, baseUrl) {
      const hosts = bound.get(canonical(ref));
      if (hosts === undefined ? !isListed : hosts.allows(new URL(baseUrl))) return undefined;
      const { host } = new URL(baseUrl);
      return `the deployment does not let ${ref} go to ${host} (the setting ${SETTING})`;
    },
  };
}

function ownHosts(
  provider: (typeof PROVIDERS)[number],
  env: Readonly<Record<string, string | undefined>>,
): string {
  return [provider.baseUrl, baseUrlOf(env, provider)].map((url) => new URL(url).host).join(',');
}

function entries(text: string): [string, HostList][] {
  const parts = text
    .split(';')
    .map((part) => part.trim())
    .filter((part) => part !== '');
  const refs = parts.map((part): [string, HostList] => {
    const [, ref, list = ''] = /^(env:[A-Za-z_][A-Za-z0-9_]*|file:\/[^=;]+)=(.+)$/.exec(part) ?? [];
    if (ref === undefined) throw new SettingsError(`${SETTING} is not valid: "${part}" is not ${FORM}`);
    return [canonical(ref), hostList(SETTING, list)];
  });
  const twice = refs.find(([ref], at) => refs.findIndex(([other]) => other === ref) !== at);
  if (twice) throw new SettingsError(`${SETTING} is not valid: ${twice[0]} is there twice`);
  return refs;
}

/** One file has one reference, however its path is written. */
function canonical(ref: string): string {
  return ref.startsWith('file:') ? `file:${normalize(ref.slice('file:'.length))}` : ref;
}
