import { Ajv2020, type ErrorObject } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { type Document, isMap, isNode, isScalar, LineCounter, parseAllDocuments, visit } from 'yaml';
import {
  type ApplyFile,
  ApplyFileError,
  type DesiredResource,
  type Json,
  NAME_FIELD,
  type Rule,
  type Section,
} from './desiredState.ts';
import { fileSchema, type OpenApiSchemas } from './fileSchema.ts';
import { moneyFromDecimal } from './values.ts';

const SECTIONS = Object.keys(NAME_FIELD) as Section[];

/**
 * Reads a file, and checks it whole: its YAML, every field against the schemas that the service publishes, every rule
 * that can be told without the service. Throws an ApplyFileError with all that is wrong.
 */
export function readApplyFile(name: string, text: string, published: OpenApiSchemas, rule: Rule): ApplyFile {
  const lines = new LineCounter();
  const faults: string[] = [];
  const tell = (offset: number, message: string) =>
    faults.push(`${name}:${lines.linePos(offset).line}: ${message}`);
  const end = () => {
    if (faults.length > 0) throw new ApplyFileError([...new Set(faults)].join('\n'));
  };

  const documents = parseAllDocuments(text, { lineCounter: lines, prettyErrors: false });
  if (!Array.isArray(documents) || documents[0] === undefined)
    throw new ApplyFileError(`${name}:1: the file is empty`);
  const [document, another] = documents;
  for (const { errors } of documents) for (const error of errors) tell(error.pos[0], error.message);
  if (another) tell(another.range[0], 'a file holds one document');
  end();

  // A price is kept as it is written: as a number it would be a float.
  visit(document, {
    Pair(_, { key, value }) {
      if (
        isScalar(key) &&
        /_price$/.test(String(key.value)) &&
        isScalar(value) &&
        typeof value.value === 'number'
      ) {
        value.value = value.source ?? String(value.value);
      }
    },
  });
  let content: Json;
  try {
    content = document.toJS() as Json;
  } catch (error) {
    throw new ApplyFileError(`${name}:1: ${(error as Error).message}`);
  }
  const at = (path: readonly (string | number)[]): number => offsetOf(document, path);

  const ajv = new Ajv2020({ strict: false, allErrors: true });
  addFormats.default(ajv);
  const validate = ajv.compile(fileSchema(published));
  if (!validate(content)) {
    for (const error of validate.errors ?? []) {
      const [path, message] = explain(error);
      tell(at(path), message);
    }
    end();
  }

  const sections = Object.fromEntries(
    SECTIONS.map((section) => {
      const seen = new Map<unknown, number>();
      const things = ((content[section] ?? []) as Json[]).map((fields, index): DesiredResource => {
        const offset = at([section, index]);
        const { line } = lines.linePos(offset);
        const key = fields[NAME_FIELD[section]];
        const before = seen.get(key);
        if (before !== undefined)
          tell(offset, `${section}: ${String(key)} is named in line ${before} already`);
        else seen.set(key, line);
        try {
          const read = withMoney(fields) as Json;
          rule(section, read);
          return { fields: read, line };
        } catch (error) {
          const { param, message } = error as Error & { param?: string };
          tell(at([section, index, ...(param ?? '').split('.').filter(Boolean)]), message);
          return { fields, line };
        }
      });
      return [section, things];
    }),
  ) as unknown as ApplyFile;
  for (const [index, { fields }] of sections.policies.entries()) {
    const { default_for } = fields;
    const other = sections.policies.findIndex((policy) => policy.fields.default_for === default_for);
    if (default_for == null || other === index) continue;
    const by = sections.policies[other]?.fields.name;
    tell(
      at(['policies', index, 'default_for']),
      `${String(by)} is the default for ${String(default_for)} already`,
    );
  }
  end();
  return sections;
}

/** Where the thing at this path begins, or the nearest one around it that is there. */
function offsetOf(document: Document, path: readonly (string | number)[]): number {
  for (let length = path.length; length > 0; length--) {
    const within = path.slice(0, length);
    const holder = document.getIn(within.slice(0, -1), true);
    // A field is pointed at by its name, which is what a reader looks for.
    const field =
      isMap(holder) && holder.items.find(({ key }) => isScalar(key) && key.value === within.at(-1));
    const node = field ? field.key : document.getIn(within, true);
    if (isNode(node) && node.range) return node.range[0];
  }
  return 0;
}

/** `0.15` stands for the amount that the service takes. */
function withMoney(value: unknown, name = ''): unknown {
  if (typeof value === 'string' && name.endsWith('_price')) return moneyFromDecimal(value);
  if (Array.isArray(value)) return value.map((item) => withMoney(item));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([field, inner]) => [field, withMoney(inner, field)]));
}

/** Where a fault is, and what to say of it. */
function explain({
  instancePath,
  keyword,
  params,
  message,
}: ErrorObject): [path: (string | number)[], message: string] {
  const path = instancePath
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .map((part) => (/^\d+$/.test(part) ? Number(part) : part));
  const shown = path.length === 0 ? 'the file' : path.join('.');
  if (keyword === 'additionalProperties') {
    const { additionalProperty } = params;
    return [[...path, additionalProperty], `${shown}: ${additionalProperty} is not a field here`];
  }
  if (keyword === 'enum') return [path, `${shown}: must be one of ${params.allowedValues.join(', ')}`];
  return [path, `${shown}: ${message}`];
}
