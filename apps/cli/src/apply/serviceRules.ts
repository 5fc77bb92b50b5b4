import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import * as rules from '@weighbridge/control-plane/rules';
import type { Json, Rule } from './desiredState.ts';
import type { OpenApiSchemas } from './fileSchema.ts';

/** The schemas and the rules of the control plane itself, so that apply checks exactly what the service checks. */
export async function loadServiceRules(): Promise<{ published: OpenApiSchemas; rule: Rule }> {
  const file = createRequire(import.meta.url).resolve('@weighbridge/control-plane/openapi.json');
  const { components } = JSON.parse(await readFile(file, 'utf8'));
  return {
    published: components.schemas,
    rule(section, fields, isNew = false) {
      // The schema check has already ensured that each resource has the fields that its rules read.
      const resource = fields as never;
      if (section === 'profiles') rules.checkProfile(resource);
      if (section === 'aliases') rules.checkAlias(resource);
      if (section === 'policies') rules.checkPolicy(resource);
      if (section === 'teams') rules.checkTeam(resource);
      if (section === 'principals') rules.checkPrincipal(resource);
      if (section === 'models') rules.checkModel(resource);
      if (section !== 'connectors') return;
      rules.checkConnector(resource, isNew);
      for (const [model, price] of Object.entries((fields.prices ?? {}) as Json)) {
        rules.checkModelPrice(model, price as never);
      }
    },
  };
}
