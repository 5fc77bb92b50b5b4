export type Json = Record<string, unknown>;

/** One resource of the file: its fields, and the line where it begins. */
export interface DesiredResource {
  readonly fields: Json;
  readonly line: number;
}

/** The resources of a file, by section. Omitted sections are empty. */
export interface ApplyFile {
  readonly profiles: readonly DesiredResource[];
  readonly policies: readonly DesiredResource[];
  readonly principals: readonly DesiredResource[];
  readonly models: readonly DesiredResource[];
  readonly connectors: readonly DesiredResource[];
  readonly aliases: readonly DesiredResource[];
}

export type Section = keyof ApplyFile;

/** The field that identifies a resource in its section. */
export const NAME_FIELD: Readonly<Record<Section, string>> = {
  profiles: 'name',
  policies: 'name',
  principals: 'id',
  models: 'model',
  connectors: 'name',
  aliases: 'name',
};

/** What tells a resource of the file from the others of its section: an alias may be named once for each policy. */
export function identityOf(section: Section, fields: Json): string {
  const name = String(fields[NAME_FIELD[section]]);
  return section === 'aliases' && fields.policy != null ? `${name} of ${String(fields.policy)}` : name;
}

/** The errors of a file, one per line, each with its place. */
export class ApplyFileError extends Error {
  override readonly name = 'ApplyFileError';
}

/** The business rules of the service: throws if the resource breaks one. Some rules apply only to new resources. */
export type Rule = (section: Section, fields: Json, isNew?: boolean) => void;
