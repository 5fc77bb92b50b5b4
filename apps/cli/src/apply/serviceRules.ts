import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import * as rules from '@weighbridge/control-plane/rules';
import type { Json, Rule } from './desiredState.ts';
import type { OpenApiSchemas } from './fileSchema.ts';

/** What the service publishes, and what it would refuse: both from the control plane itself, so that they are its rules. */
export async function loadServiceRules(): Promise<{ published: OpenApiSchemas; rule: Rule }> {
  const file = createRequire(import.meta.url).resolve('@weighbridge/control-plane/openapi.json');
  const { components } = JSON.parse(await readFile(file, 'utf8'));
  return {
    published: components.schemas,
    rule(section, fields, isNew = false) {
      // The schemas have been checked before: each thing has the fields that its rules read.
      const thing = fields as never;
      if (section === 'profiles') rules.checkProfile(thing);
      if (section === 'policies') rules.checkPolicy(thing);
      if (section === 'principals') rules.checkPrincipal(thing);
      if (section === 'models') rules.checkModelPrice(fields.model as never, fields.price as never);
      if (section !== 'connectors') return;
      rules.checkConnector(thing, isNew);
      for (const [model, price] of Object.entries((fields.prices ?? {}) as Json)) {
        rules.checkModelPrice(model, price as never);
      }
    },
  };
}
