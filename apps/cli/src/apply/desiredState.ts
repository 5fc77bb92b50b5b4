export type Json = Record<string, unknown>;

/** One resource of a file: its fields, and where it begins. */
export interface DesiredResource {
  readonly fields: Json;
  readonly line: number;
  readonly file: string;
}

/** The resources of a file, by section. Omitted sections are empty. */
export interface ApplyFile {
  readonly profiles: readonly DesiredResource[];
  readonly policies: readonly DesiredResource[];
  readonly teams: readonly DesiredResource[];
  readonly principals: readonly DesiredResource[];
  readonly overrides: readonly DesiredResource[];
  readonly models: readonly DesiredResource[];
  readonly connectors: readonly DesiredResource[];
  readonly aliases: readonly DesiredResource[];
  readonly webhooks: readonly DesiredResource[];
  readonly keys: readonly DesiredResource[];
}

export type Section = keyof ApplyFile;

/** The field that identifies a resource in its section. */
export const NAME_FIELD: Readonly<Record<Section, string>> = {
  profiles: 'name',
  policies: 'name',
  teams: 'name',
  principals: 'id',
  overrides: 'policy',
  models: 'model',
  connectors: 'name',
  aliases: 'name',
  webhooks: 'name',
  keys: 'name',
};

/** What tells a resource of the file from the others of its section: an alias may be named once for each policy, an override for each counter. */
export function identityOf(section: Section, fields: Json): string {
  const name = String(fields[NAME_FIELD[section]]);
  if (section === 'overrides') {
    const { limit, value, principal_id, key_id } = fields;
    const of = limit === undefined ? '' : `, limit ${String(limit)}`;
    return `${name}${of} for ${String(value ?? principal_id ?? key_id ?? 'all')}`;
  }
  return section === 'aliases' && fields.policy != null ? `${name} of ${String(fields.policy)}` : name;
}

/** Where a resource is, for messages. */
export function placeOf({ file, line }: DesiredResource): string {
  return `${file}:${line}`;
}

/**
 * The resources of several files, as if they were in one. Throws an ApplyFileError if two name the same resource, or two
 * policies are the default for the same keys.
 */
export function mergeFiles(files: readonly ApplyFile[]): ApplyFile {
  const errors: string[] = [];
  const sections = (Object.keys(NAME_FIELD) as Section[]).map((section) => {
    const resources = files.flatMap((file) => file[section]);
    const seen = new Map<string, DesiredResource>();
    for (const desired of resources) {
      const identity = identityOf(section, desired.fields);
      const before = seen.get(identity);
      if (before)
        errors.push(`${placeOf(desired)}: ${section}: ${identity} is already named in ${placeOf(before)}`);
      else seen.set(identity, desired);
    }
    return [section, resources] as const;
  });
  const merged = Object.fromEntries(sections) as unknown as ApplyFile;
  const defaults = new Map<unknown, DesiredResource>();
  for (const policy of merged.policies) {
    const { default_for, name } = policy.fields;
    if (default_for == null) continue;
    const before = defaults.get(default_for);
    if (before) {
      errors.push(
        `${placeOf(policy)}: ${String(name)}: ${String(before.fields.name)} is already the default for ${String(default_for)} (${placeOf(before)})`,
      );
    } else defaults.set(default_for, policy);
  }
  if (errors.length > 0) throw new ApplyFileError(errors.join('\n'));
  return merged;
}

/** The errors of a file, one per line, each with its place. */
export class ApplyFileError extends Error {
  override readonly name = 'ApplyFileError';
}

/** The business rules of the service: throws if the resource breaks one. Some rules apply only to new resources. */
export type Rule = (section: Section, fields: Json, isNew?: boolean) => void;
