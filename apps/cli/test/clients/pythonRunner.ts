import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type ClientScene, type Connected, runClient } from './clientScene.ts';
import { BEHIND_CLIENTS, PYTHON_CLIENTS, pythonPrograms } from './python.ts';
import { type Found, foundIn } from './sdkSuite.ts';
import { fileOfClients } from './service.ts';

export interface PythonProgram {
  /** The function of the driver. */
  readonly driver: string;
  /** The model that it asks for. */
  readonly model: string;
  /** It runs with the SDKs of before. */
  readonly isBehind?: boolean | undefined;
  readonly env?: Readonly<Record<string, string>>;
}

/** What the cases of the driver find, after the settings that `weighbridge connect` printed. */
export async function runPython(
  scene: ClientScene,
  connected: Connected,
  { driver, model, isBehind, env: more = {} }: PythonProgram,
): Promise<Found[]> {
  const program = `${connected.code}\n${await readFile(fileOfClients('drivers/python.py'), 'utf8')}`;
  const env = {
    ...connected.env,
    ...more,
    TEST_MODEL: model,
    TEST_DRIVER: driver,
    // Else it loads its list of prices from GitHub, three times.
    LITELLM_LOCAL_MODEL_COST_MAP: 'True',
  };
  const python = join(await pythonPrograms(isBehind ? BEHIND_CLIENTS : PYTHON_CLIENTS), 'python');
  const files = { 'program.py': program };
  return foundIn(await runClient(scene, python, ['../program.py'], { ...connected, env }, { files }));
}
