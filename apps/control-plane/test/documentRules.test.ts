import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { documentProblems } from './documentRules.ts';

const committed = readFileSync(new URL('../openapi.json', import.meta.url), 'utf8');

/** The problems of the committed document after a change. */
// biome-ignore lint/suspicious/noExplicitAny: what is planted has the shape of no document.
function planted(change: (document: any) => void): string[] {
  const document = JSON.parse(committed);
  change(document);
  return documentProblems(document);
}

const KEY = '/api/v1/keys/{key_id}';

describe('the rules of the document', () => {
  it('find nothing in the committed one', () => {
    expect(planted(() => undefined)).toEqual([]);
  });

  it.each<[string, Parameters<typeof planted>[0], RegExp]>([
    [
      'an object in a component',
      ({ components }) => {
        components.schemas.Key.properties.inner = { type: 'object', properties: {} };
      },
      /schemas\/Key\/properties\/inner: an object without a name/,
    ],
    [
      'an object that may be null',
      ({ components }) => {
        components.schemas.Key.properties.inner = { type: ['object', 'null'] };
      },
      /an object without a name/,
    ],
    [
      'an enum in a parameter',
      ({ paths }) => {
        paths['/api/v1/keys'].get.parameters[0].schema = { type: 'string', enum: ['a'] };
      },
      /an enum without a name/,
    ],
    [
      'a field that is named like a keyword',
      ({ components }) => {
        components.schemas.Key.properties.properties = { type: 'object' };
      },
      /Key\/properties\/properties: an object without a name/,
    ],
    [
      'two components of one shape',
      ({ components }) => {
        components.schemas.Copy = { ...components.schemas.Key, description: 'Another.' };
      },
      /schemas\/(Copy|Key): the same as/,
    ],
    [
      'an unused component',
      ({ components }) => {
        components.schemas.Lonely = { type: 'object', properties: { a: { type: 'null' } } };
      },
      /Lonely: unused/,
    ],
    [
      'a reference that dangles',
      ({ components }) => {
        components.schemas.Key.properties.kind = { $ref: '#/components/schemas/Nowhere' };
      },
      /Nowhere does not exist/,
    ],
    [
      'a body without an example',
      ({ paths }) => {
        delete paths['/api/v1/keys'].post.requestBody.content['application/json'].example;
      },
      /post \/api\/v1\/keys: no example of its body/,
    ],
    [
      'a response without an example',
      ({ paths }) => {
        delete paths[KEY].get.responses[200].content['application/json'].example;
      },
      /no example of 200/,
    ],
    [
      'a path parameter without an example',
      ({ paths }) => {
        delete paths[KEY].get.parameters[0].example;
      },
      /no example of key_id/,
    ],
    [
      'an operation without a description',
      ({ paths }) => {
        paths[KEY].get.description = '';
      },
      /get .*: no description/,
    ],
    [
      'a parameter without a description',
      ({ paths }) => {
        delete paths[KEY].get.parameters[0].description;
      },
      /no description of key_id/,
    ],
    [
      'a number without bounds',
      ({ paths }) => {
        delete paths['/api/v1/keys'].get.parameters[0].schema.maximum;
      },
      /page_size: a number without bounds/,
    ],
    [
      'a number as text',
      ({ paths }) => {
        paths['/api/v1/keys'].get.parameters[0].schema = { type: 'string' };
      },
      /page_size: a number as text/,
    ],
    [
      'an operation that no link leads to',
      ({ paths }) => {
        for (const { post, get } of [paths['/api/v1/keys']]) {
          delete post.responses[201].links.getKey;
          delete get.responses[200].links.getKey;
        }
      },
      /get .*key_id}: no link leads to it/,
    ],
    [
      'a tag without a description',
      ({ tags }) => {
        tags[0].description = '';
      },
      /tag Keys: no description/,
    ],
  ])('find %s', (_what, change, problem) => {
    expect(planted(change).join('\n')).toMatch(problem);
  });
});
