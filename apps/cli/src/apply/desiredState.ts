export type Json = Record<string, unknown>;

/** One thing of the file: its fields, and the line where it begins. */
export interface DesiredResource {
  readonly fields: Json;
  readonly line: number;
}

/** What a file asks for, by section. Sections that it leaves out are empty. */
export interface ApplyFile {
  readonly profiles: readonly DesiredResource[];
  readonly policies: readonly DesiredResource[];
  readonly principals: readonly DesiredResource[];
  readonly models: readonly DesiredResource[];
  readonly connectors: readonly DesiredResource[];
}

export type Section = keyof ApplyFile;

/** What the things of each section are told apart by. */
export const NAME_FIELD: Readonly<Record<Section, string>> = {
  profiles: 'name',
  policies: 'name',
  principals: 'id',
  models: 'model',
  connectors: 'name',
};

/** What is wrong in the file, a line for each fault, each with its place. */
export class ApplyFileError extends Error {
  override readonly name = 'ApplyFileError';
}

/** The business rules of the service: throws where the thing breaks one. A new thing has more of them than a known one. */
export type Rule = (section: Section, fields: Json, isNew?: boolean) => void;
