import { isDateTime } from '@weighbridge/control-plane/rules';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { type Document, isMap, isNode, isScalar, LineCounter, parseAllDocuments, visit } from 'yaml';
import {
  type ApplyFile,
  ApplyFileError,
  type DesiredResource,
  identityOf,
  type Json,
  NAME_FIELD,
  type Rule,
  type Section,
} from './desiredState.ts';
import { fileSchema, type OpenApiSchemas } from './fileSchema.ts';
import { explainSchemaError } from './schemaErrors.ts';
import { LIMIT_USD, moneyFromDecimal, withMicroUsd } from './values.ts';

const SECTIONS = Object.keys(NAME_FIELD) as Section[];
/** The one object whose fields are amounts, whatever their names. */
const TOOL_PRICES = 'tool_prices';

/**
 * Reads a file and checks all of it: its YAML, its fields against the service's schemas, and the rules that need no
 * service. Throws an ApplyFileError with all errors.
 */
export function readApplyFile(name: string, text: string, published: OpenApiSchemas, rule: Rule): ApplyFile {
  const errors = new FileErrors(name);
  const document = parseDocument(text, errors);
  keepPricesAsText(document);
  let content: Json;
  try {
    content = document.toJS() as Json;
  } catch (error) {
    throw new ApplyFileError(`${name}:1: ${(error as Error).message}`);
  }
  checkSchema(document, content, published, errors);
  const file = readSections(document, content, rule, errors);
  checkDefaults(document, file, errors);
  errors.throwIfAny();
  return file;
}

/** Collects the errors of a file, each with its line. */
class FileErrors {
  readonly lines = new LineCounter();
  readonly #name: string;
  readonly #messages = new Set<string>();

  constructor(name: string) {
    this.#name = name;
  }

  get file(): string {
    return this.#name;
  }

  lineAt(offset: number): number {
    return this.lines.linePos(offset).line;
  }

  add(offset: number, message: string): void {
    this.#messages.add(`${this.#name}:${this.lineAt(offset)}: ${message}`);
  }

  throwIfAny(): void {
    if (this.#messages.size > 0) throw new ApplyFileError([...this.#messages].join('\n'));
  }

  throwEmpty(): never {
    throw new ApplyFileError(`${this.#name}:1: the file is empty`);
  }
}

function parseDocument(text: string, errors: FileErrors): Document {
  const documents = parseAllDocuments(text, { lineCounter: errors.lines, prettyErrors: false });
  if (!Array.isArray(documents) || documents[0] === undefined) return errors.throwEmpty();
  const [document, another] = documents;
  for (const { code, pos, message } of documents.flatMap((parsed) => parsed.errors)) {
    errors.add(pos[0], code === 'TAB_AS_INDENT' ? `${message}. Use spaces` : message);
  }
  if (another) errors.add(another.range[0], 'a file may contain only one document');
  errors.throwIfAny();
  return document;
}

/** A price stays text: as a number it would be a float. */
function keepPricesAsText(document: Document): void {
  visit(document, {
    Pair(_, { key, value }) {
      if (!isScalar(key)) return;
      const name = String(key.value);
      if (name.endsWith('_price') || name === LIMIT_USD) keepAsText(value);
      if (name === TOOL_PRICES && isMap(value)) for (const tool of value.items) keepAsText(tool.value);
    },
  });
}

function keepAsText(value: unknown): void {
  if (isScalar(value) && typeof value.value === 'number') value.value = value.source ?? String(value.value);
}

function checkSchema(document: Document, content: Json, published: OpenApiSchemas, errors: FileErrors): void {
  const ajv = new Ajv2020({ strict: false, allErrors: true, verbose: true });
  addFormats.default(ajv);
  // As the service does: the validator's own takes a space for the T.
  ajv.addFormat('date-time', isDateTime);
  const validate = ajv.compile(fileSchema(published));
  if (validate(content)) return;
  const found = validate.errors ?? [];
  // That a value may also be null, or must be one of both, says no more than the choices do.
  const choices = new Set(found.filter(({ keyword }) => keyword === 'enum').map((one) => one.instancePath));
  for (const error of found) {
    if (error.keyword !== 'enum' && choices.has(error.instancePath)) continue;
    const [path, message] = explainSchemaError(error, content);
    errors.add(offsetOf(document, path), message);
  }
  errors.throwIfAny();
}

function readSections(document: Document, content: Json, rule: Rule, errors: FileErrors): ApplyFile {
  const sections = SECTIONS.map((section) => {
    const seen = new Map<unknown, number>();
    const resources = ((content[section] ?? []) as Json[]).map((fields, index): DesiredResource => {
      const offset = offsetOf(document, [section, index]);
      const line = errors.lineAt(offset);
      const key = identityOf(section, fields);
      const before = seen.get(key);
      if (before !== undefined) errors.add(offset, `${section}: ${key} is already named in line ${before}`);
      else seen.set(key, line);
      try {
        const read = withMicroUsd(withMoney(fields) as Json);
        rule(section, read);
        return { fields: read, line, file: errors.file };
      } catch (error) {
        const { param, message } = error as Error & { param?: string };
        const path = [section, index, ...(param ?? '').split('.').filter(Boolean)];
        errors.add(offsetOf(document, path), message);
        return { fields, line, file: errors.file };
      }
    });
    return [section, resources];
  });
  return Object.fromEntries(sections) as unknown as ApplyFile;
}

/** Only one policy can be the default for a kind of keys. */
function checkDefaults(document: Document, { policies }: ApplyFile, errors: FileErrors): void {
  for (const [index, { fields }] of policies.entries()) {
    const { default_for } = fields;
    const other = policies.findIndex((policy) => policy.fields.default_for === default_for);
    if (default_for == null || other === index) continue;
    const name = policies[other]?.fields.name;
    errors.add(
      offsetOf(document, ['policies', index, 'default_for']),
      `${String(name)} is already the default for ${String(default_for)}`,
    );
  }
}

/** The offset of the node at this path, or of its nearest parent that exists. */
function offsetOf(document: Document, path: readonly (string | number)[]): number {
  for (let length = path.length; length > 0; length--) {
    const within = path.slice(0, length);
    const holder = document.getIn(within.slice(0, -1), true);
    // A field's position is that of its name.
    const field =
      isMap(holder) && holder.items.find(({ key }) => isScalar(key) && key.value === within.at(-1));
    const node = field ? field.key : document.getIn(within, true);
    if (isNode(node) && node.range) return node.range[0];
  }
  return 0;
}

/** Replaces decimal prices such as `0.15` by amounts of the API. */
function withMoney(value: unknown, name = '', parent = ''): unknown {
  const isPrice = name.endsWith('_price') || parent === TOOL_PRICES;
  if (typeof value === 'string' && isPrice) return moneyFromDecimal(value);
  if (Array.isArray(value)) return value.map((item) => withMoney(item));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([field, inner]) => [field, withMoney(inner, field, name)]),
  );
}
