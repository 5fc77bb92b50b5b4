import { AGENTS } from './agents.ts';
import { JAVASCRIPT } from './javascript.ts';
import { PYTHON_FRAMEWORKS } from './pythonFrameworks.ts';
import { PYTHON_SDKS } from './pythonSdks.ts';
import type { Recipe } from './recipe.ts';

/** Every client that `weighbridge connect` knows. */
export const RECIPES: readonly Recipe[] = [...AGENTS, ...JAVASCRIPT, ...PYTHON_SDKS, ...PYTHON_FRAMEWORKS];

export function findRecipe(name: string): Recipe | undefined {
  return RECIPES.find((recipe) => recipe.name === name);
}
