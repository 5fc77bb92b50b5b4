import { ROUTER_PREFIX } from '../routing/profile.ts';
import { type Alias, AliasIndex } from './aliasIndex.ts';
import { parseCloudName } from './cloudNames.ts';

/** A model that can be reached, as far as names go. */
export interface NameableModel {
  /** `<provider>/<model name>` */
  readonly id: string;
  readonly provider: string;
  /** Its provider's other names of it. */
  readonly otherNames: readonly string[];
  /** Its provider made it. False if the provider serves a model that another company made. */
  readonly own: boolean;
}

/** What a name in a request stands for. */
export interface ResolvedName {
  /** The id of a model, or `router/<profile>`. */
  readonly target: string;
  readonly by: NameKind;
  /** Set if an alias matched. */
  readonly alias: Alias | undefined;
  /** Another name of the model, which its provider gets as it was written: a dated release stays that release. */
  readonly sentName: string | undefined;
}

/** In the order in which they are tried: `id` is `<provider>/<model>` or `router/<profile>`. */
export type NameKind = 'id' | 'alias' | 'name' | 'other_name';

export interface NamesInput {
  readonly models: Iterable<NameableModel>;
  readonly aliases: readonly Alias[];
  /** Providers with a connector: a name that begins with one of them is not an alias. */
  readonly providers: Iterable<string>;
  /** The priority of the preferred connector of a model, the lowest first. */
  readonly priorityOf: (model: NameableModel) => number;
}

interface Candidate {
  readonly model: NameableModel;
  readonly isOtherName: boolean;
  /** It follows from the cloud's own name, which is the one that the cloud knows. */
  readonly isPlain?: true;
}

/**
 * Resolves the names that requests give to models. Built once per routing table: exact names are one look-up, and aliases
 * with `*` one for each length that theirs have.
 */
export class ModelNames {
  readonly #ids: ReadonlyMap<string, NameableModel>;
  readonly #providers: ReadonlySet<string>;
  readonly #byName: ReadonlyMap<string, ResolvedName>;
  readonly #forAll: AliasIndex<Alias>;
  readonly #byPolicy: ReadonlyMap<string, AliasIndex<Alias>>;
  /** Aliases depend on the policies of a key. */
  readonly hasPolicyAliases: boolean;

  constructor({ models, aliases, providers, priorityOf }: NamesInput) {
    this.#ids = new Map([...models].map((model) => [model.id, model]));
    this.#providers = new Set([...providers, ...[...this.#ids.values()].map(({ provider }) => provider)]);
    this.#byName = namesOf(this.#ids, priorityOf);
    this.#forAll = new AliasIndex(aliases.filter(({ policyId }) => policyId === undefined));
    const policyIds = new Set(aliases.flatMap(({ policyId }) => policyId ?? []));
    this.#byPolicy = new Map(
      [...policyIds].map((id) => [id, new AliasIndex(aliases.filter(({ policyId }) => policyId === id))]),
    );
    this.hasPolicyAliases = this.#byPolicy.size > 0;
  }

  /** What the name stands for under these policies, the nearest first; undefined if it is unknown. */
  resolve(name: string, policyIds: readonly string[]): ResolvedName | undefined {
    if (this.#ids.has(name) || isProfileName(name)) return resolved(name, 'id');
    return this.#byAlias(name, policyIds) ?? this.inCatalog(name);
  }

  /** As `resolve`, without aliases: what a vendor may take the name for. */
  inCatalog(name: string): ResolvedName | undefined {
    const known = this.#byName.get(name);
    if (known) return known;
    const spelled = parseCloudName(name);
    if (!spelled) return undefined;
    const { provider } = spelled;
    const key = provider === undefined ? spelled.name : `${provider}/${spelled.name}`;
    const target = this.#ids.has(key) ? key : this.#byName.get(key)?.target;
    // Whoever serves it does not know the spelling of a cloud: it gets its own name of the model.
    return target === undefined ? undefined : resolved(target, 'other_name');
  }

  /** The exact aliases that keys of these policies have, the nearest policy's of each name. */
  aliasesOf(policyIds: readonly string[]): Alias[] {
    const indexes = [...policyIds.flatMap((id) => this.#byPolicy.get(id) ?? []), this.#forAll];
    const byName = new Map<string, Alias>();
    for (const index of indexes) {
      for (const alias of index.exact()) if (!byName.has(alias.name)) byName.set(alias.name, alias);
    }
    return [...byName.values()].filter(({ name }) => !this.#beginsWithProvider(name));
  }

  #byAlias(name: string, policyIds: readonly string[]): ResolvedName | undefined {
    if (this.#beginsWithProvider(name)) return undefined;
    for (const policyId of this.hasPolicyAliases ? policyIds : []) {
      const own = this.#byPolicy.get(policyId)?.find(name);
      if (own) return resolved(own.target, 'alias', own);
    }
    const alias = this.#forAll.find(name);
    return alias && resolved(alias.target, 'alias', alias);
  }

  #beginsWithProvider(name: string): boolean {
    const slash = name.indexOf('/');
    return slash !== -1 && this.#providers.has(name.slice(0, slash));
  }
}

function isProfileName(name: string): boolean {
  return name.startsWith(ROUTER_PREFIX);
}

function resolved(target: string, by: NameKind, alias?: Alias, sentName?: string): ResolvedName {
  return { target, by, alias, sentName };
}

/** Bare names and other names; other names also behind the provider that gives them. */
function namesOf(
  ids: ReadonlyMap<string, NameableModel>,
  priorityOf: NamesInput['priorityOf'],
): Map<string, ResolvedName> {
  const candidates = new Map<string, Candidate[]>();
  const add = (name: string, candidate: Candidate): void => {
    const others = candidates.get(name);
    if (others) others.push(candidate);
    else candidates.set(name, [candidate]);
  };
  for (const model of ids.values()) {
    add(model.id.slice(model.provider.length + 1), { model, isOtherName: false });
    for (const name of model.otherNames) {
      add(name, { model, isOtherName: true });
      add(`${model.provider}/${name}`, { model, isOtherName: true });
    }
    for (const name of plainNames(model)) add(name, { model, isOtherName: true, isPlain: true });
  }
  const names = new Map<string, ResolvedName>();
  for (const [name, all] of candidates) {
    if (ids.has(name)) continue;
    const [first] = all.length === 1 ? all : all.sort((a, b) => preference(a, b, priorityOf));
    if (first) names.set(name, nameOf(name, first));
  }
  return names;
}

/** Providers whose names of models are spelled as clouds do. */
const CLOUDS: ReadonlySet<string> = new Set(['bedrock', 'vertex']);

/** What the maker of a cloud's model calls it: with its date, and without. */
function plainNames({ id, provider, otherNames }: NameableModel): string[] {
  const name = CLOUDS.has(provider) ? parseCloudName(id.slice(provider.length + 1))?.name : undefined;
  if (name === undefined) return [];
  return [...new Set([name, name.replace(/-\d{8}$/, '')])].filter((plain) => !otherNames.includes(plain));
}

function nameOf(name: string, { model, isOtherName, isPlain }: Candidate): ResolvedName {
  if (!isOtherName) return resolved(model.id, 'name');
  if (isPlain) return resolved(model.id, 'other_name');
  const prefix = `${model.provider}/`;
  const isPrefixed = !model.otherNames.includes(name) && name.startsWith(prefix);
  const other = isPrefixed ? name.slice(prefix.length) : name;
  const ownName = model.id.slice(prefix.length);
  return resolved(model.id, 'other_name', undefined, isRespelled(other, ownName) ? undefined : other);
}

/** The same name as others write it (`gpt-5-1`, `x-ai/grok-4.3`): its provider may only know its own spelling. */
function isRespelled(other: string, ownName: string): boolean {
  const letters = (name: string) =>
    name
      .slice(name.lastIndexOf('/') + 1)
      .replaceAll('.', '-')
      .toLowerCase();
  return letters(other) === letters(ownName);
}

/** Who makes the model before who serves it, its own name before another one, then by the connectors' priority. */
function preference(a: Candidate, b: Candidate, priorityOf: NamesInput['priorityOf']): number {
  return (
    Number(b.model.own) - Number(a.model.own) ||
    Number(a.isOtherName) - Number(b.isOtherName) ||
    priorityOf(a.model) - priorityOf(b.model) ||
    (a.model.id < b.model.id ? -1 : 1)
  );
}
