@chcp 65001 >nul
@start "" wscript.exe //B //Nologo //E:JScript "/home/Zoë \"x\"/.hermes/100%%/gateway-service/Hermes_Gateway_work.js"
