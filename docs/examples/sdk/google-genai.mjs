// npm install @google/genai; GOOGLE_GEMINI_BASE_URL is http://127.0.0.1:8080, GEMINI_API_KEY a key of Weighbridge.
import { GoogleGenAI } from '@google/genai';

const client = new GoogleGenAI({
  apiKey: process.env.GEMINI_API_KEY,
  httpOptions: { baseUrl: process.env.GOOGLE_GEMINI_BASE_URL },
});
const contents = 'Hello from the Google Gen AI SDK';
const response = await client.models.generateContent({
  model: process.env.MODEL ?? 'mock/echo',
  contents,
});
console.log(response.text);
