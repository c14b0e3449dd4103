// A host of MCP Apps as the protocol's own package makes it: shows a document in a sandbox and gives it a result.

import { AppBridge, getToolUiResourceUri, PostMessageTransport, RESOURCE_MIME_TYPE } from "@modelcontextprotocol/ext-apps/app-bridge";

window.host = async ({ html, result, context, tool }) => {
  const frame = document.querySelector("iframe");
  const heard = { opened: [], sizes: [], uri: getToolUiResourceUri(tool), mimeType: RESOURCE_MIME_TYPE };
  const bridge = new AppBridge(null, { name: "a host", version: "1" }, { openLinks: {} }, { hostContext: context });
  bridge.onopenlink = async ({ url }) => (heard.opened.push(url), {});
  bridge.onsizechange = ({ height }) => (heard.sizes.push(height), (frame.style.height = `${height}px`));
  bridge.oninitialized = async () => {
    await bridge.sendToolInput({ arguments: {} });
    await bridge.sendToolResult(result);
  };
  await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
  frame.srcdoc = html;
  Object.assign(window, { bridge, heard });
};
