import { readFileSync } from 'node:fs';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { describe, expect, it } from 'vitest';
import { documentProblems } from '../test/documentRules.ts';
import { openApiDocument } from './openApiDocument.ts';
import { type OpenApiDocument, operations } from './openapi/types.ts';

const committed = readFileSync(new URL('../openapi.json', import.meta.url), 'utf8');
const document: OpenApiDocument = JSON.parse(committed);
const all = operations(document).map(([path, method, operation]) => ({ path, method, operation }));
const pointer = (...keys: string[]) =>
  keys.map((key) => `/${encodeURIComponent(key.replaceAll('~', '~0').replaceAll('/', '~1'))}`).join('');

describe('the committed OpenAPI document', () => {
  it('matches the routes (run `pnpm generate` to update it)', async () => {
    expect(committed).toBe(await openApiDocument());
  });

  it('has the nine operations of the interface', () => {
    expect(all.map(({ method, path }) => `${method} ${path}`)).toEqual(
      expect.arrayContaining([
        'get /api/v1/keys/{key_id}/usage',
        'get /api/v1/keys/{key_id}',
        'post /api/v1/keys',
        'patch /api/v1/keys/{key_id}',
        'get /api/v1/usage',
        'get /api/v1/models',
        'post /v1/chat/completions',
        'get /v1/responses/{response_id}',
        'get /v1/responses/{response_id}/input_items',
      ]),
    );
  });

  it.each(all)('$method $path documents its security, summary and responses', ({ path, operation }) => {
    const isManagement = path.startsWith('/api/v1/');
    expect(operation.security).toEqual([isManagement ? { managementKey: [] } : { inferenceKey: [] }]);
    expect(operation['x-required-scope'] !== undefined).toBe(isManagement);
    expect(operation.operationId).toMatch(/^[a-z]+[A-Z][A-Za-z]+$/);
    expect(operation.summary).toBeTruthy();
    expect(operation.description).toBeTruthy();
    expect(operation.tags).toHaveLength(1);
    expect(Object.keys(operation.responses)).toEqual(expect.arrayContaining(['400', '401', '403', '500']));
    const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
    const declared = operation.parameters?.filter((parameter) => parameter.in === 'path') ?? [];
    expect(declared.map(({ name }) => name)).toEqual(inPath);
  });

  it('names its schemas, describes its operations and bounds its numbers', () => {
    expect(documentProblems(document)).toEqual([]);
  });

  it('has a unique operationId for each operation', () => {
    const ids = all.map(({ operation }) => operation.operationId);
    expect(new Set(ids).size).toBe(ids.length);
  });

  it('has examples that its schemas allow', () => {
    const ajv = new Ajv2020({ strict: false, allErrors: true });
    addFormats.default(ajv);
    ajv.addSchema(document, 'openapi');
    let examples = 0;
    const visit = (node: unknown, ...at: string[]): void => {
      if (typeof node !== 'object' || node === null) return;
      if ('example' in node && 'schema' in node) {
        const valid = ajv.validate({ $ref: `openapi#${pointer(...at, 'schema')}` }, node.example);
        expect(valid ? [] : ajv.errors, at.join(' ')).toEqual([]);
        examples += 1;
        return;
      }
      for (const [key, value] of Object.entries(node)) visit(value, ...at, key);
    };
    visit(document);
    expect(examples).toBeGreaterThan(all.length);
  });
});
