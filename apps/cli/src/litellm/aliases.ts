import type { Json } from '../apply/desiredState.ts';
import { asObject } from './deployment.ts';
import type { Report } from './report.ts';

const SECTIONS = ['router_settings', 'litellm_settings', 'general_settings'];

/** What names of callers stand for. */
interface Groups {
  /** The model ids behind each name of the model list. */
  readonly models: ReadonlyMap<string, readonly string[]>;
  /** The profile of each name that has one. */
  readonly profiles: ReadonlyMap<string, string>;
}

/** Throws if the service would refuse the alias. */
export type CheckAlias = (alias: { readonly name: string; readonly target: string }) => void;

/**
 * `model_group_alias`, whose values are names, or objects with `model` and `hidden`
 * (https://docs.litellm.ai/docs/proxy/load_balancing), and names of the model list that end with `*` but stand for one model.
 */
export function mapAliases(
  config: Json,
  { models, profiles }: Groups,
  check: CheckAlias,
  report: Report,
): { aliases: Json[]; groups: ReadonlyMap<string, readonly string[]> } {
  const aliases = new Map<string, string>();
  const groups = new Map(models);
  const providers = new Set([...models.values()].flat().map((model) => model.split('/')[0] ?? ''));
  const add = (name: string, target: string, behind: readonly string[], from: string, note?: string) => {
    const why = whyNot(name, target, providers, check);
    if (why !== undefined) return report.addSkipped(from, why);
    if (aliases.has(name)) return report.addSkipped(from, 'another alias of this name is converted');
    aliases.set(name, target);
    groups.set(name, behind);
    report.addConverted(from, `alias ${name} → ${target}`, note);
  };
  for (const [section, name, value] of listed(config)) {
    const at = `${section}.model_group_alias.${name}`;
    const item = asObject(value);
    const wanted = typeof value === 'string' ? value : item.model;
    if (typeof wanted !== 'string') {
      report.addSkipped(at, 'it names no model');
      continue;
    }
    for (const field of Object.keys(item)) {
      if (field !== 'model' && field !== 'hidden') report.addSkipped(`${at}.${field}`, 'unknown setting');
    }
    const found = targetOf(wanted, { models, profiles });
    if (!found) report.addSkipped(at, `there is no such group as ${wanted}`);
    else add(name, found.target, found.models, at, noteOf(item.hidden));
  }
  for (const [group, profile] of profiles) {
    if (/^[^*]*\*$/.test(group))
      add(group, `router/${profile}`, models.get(group) ?? [], `model_name ${group}`);
  }
  return { aliases: [...aliases].map(([name, target]) => ({ name, target })), groups };
}

function* listed(config: Json): Iterable<[section: string, name: string, value: unknown]> {
  for (const section of SECTIONS) {
    const aliases = asObject(asObject(config[section]).model_group_alias);
    for (const [name, value] of Object.entries(aliases)) yield [section, name, value];
  }
}

/** A group, or a model that a group with `*` serves by its own name. */
function targetOf(
  name: string,
  { models, profiles }: Groups,
): { target: string; models: readonly string[] } | undefined {
  const profile = profiles.get(name);
  if (profile !== undefined) return { target: `router/${profile}`, models: models.get(name) ?? [] };
  const isServed = [...models].some(([group, [model = '']]) => group === model && matches(model, name));
  return isServed && name.includes('/') && !name.includes('*') ? { target: name, models: [name] } : undefined;
}

/** `openai/*` matches `openai/gpt-4o`. */
function matches(pattern: string, name: string): boolean {
  const [provider] = pattern.split('/*');
  return pattern.endsWith('/*') && name.startsWith(`${provider}/`) && name.length > `${provider}/`.length;
}

function whyNot(
  name: string,
  target: string,
  providers: ReadonlySet<string>,
  check: CheckAlias,
): string | undefined {
  const [first = ''] = name.split('/');
  if (name.includes('/') && providers.has(first))
    return `an alias can't begin with ${first}/, which is a provider; rename it`;
  try {
    check({ name, target });
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

function noteOf(hidden: unknown): string | undefined {
  return hidden === true
    ? 'hidden has no counterpart: GET /v1/models lists every alias that a key can use'
    : undefined;
}
