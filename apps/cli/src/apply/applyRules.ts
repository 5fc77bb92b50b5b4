import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import * as law from '@weighbridge/control-plane/rules';
import type { OpenApiSchemas } from './fileSchema.ts';
import type { Json, Rule } from './wanted.ts';

/** What the service publishes, and what it would refuse: both from the control plane itself, so that they are its law. */
export async function serviceLaw(): Promise<{ published: OpenApiSchemas; rule: Rule }> {
  const file = createRequire(import.meta.url).resolve('@weighbridge/control-plane/openapi.json');
  const { components } = JSON.parse(await readFile(file, 'utf8'));
  return {
    published: components.schemas,
    rule(section, fields, isNew = false) {
      // The schemas have been checked before: each thing has the fields that its rules read.
      const thing = fields as never;
      if (section === 'profiles') law.checkProfile(thing);
      if (section === 'policies') law.checkPolicy(thing);
      if (section === 'principals') law.checkPrincipal(thing);
      if (section === 'models') law.checkModelPrice(fields.model as never, fields.price as never);
      if (section !== 'connectors') return;
      law.checkConnector(thing, isNew);
      for (const [model, price] of Object.entries((fields.prices ?? {}) as Json)) {
        law.checkModelPrice(model, price as never);
      }
    },
  };
}
