// Runs the Hermes gateway without a window. Written by hermes-appliance install.
var shell = WScript.CreateObject("WScript.Shell");
var files = WScript.CreateObject("Scripting.FileSystemObject");
var env = shell.Environment("Process");
env("HERMES_GATEWAY_DETACHED") = "1";
env("HERMES_HOME") = "/home/Zo\u00eb \u0022x\u0022/.hermes/100%";
env("HERMES_SUPERVISED_CHILD") = "1";
env("PYTHONIOENCODING") = "utf-8";
shell.CurrentDirectory = "/home/Zo\u00eb \u0022x\u0022/.hermes/100%";
while (true) {
  var code = shell.Run("/home/u/.local/bin/hermes-appliance --profile work gateway run", 0, true);
  if (code === 0 || code === 78 || files.FileExists("/home/Zo\u00eb \u0022x\u0022/.hermes/100%/gateway-service/Hermes_Gateway_work.stop")) WScript.Quit(code);
  if (code !== 75) WScript.Sleep(5000);
}
